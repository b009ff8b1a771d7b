package limits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// userRole is the first argument of this program as a user of verbs.
const userRole = "verbs-user"

// useVerbs opens contexts of a uverbs node and allocates protection domains in the first
// of them, as many as the arguments FILE NODE CONTEXTS OBJECTS say, and writes what the
// kernel answers to the file. Then it keeps what it has until it is killed. It speaks the
// kernel's own interface (include/uapi/rdma/ib_user_verbs.h), since libibverbs does not
// tell its errors apart.
func useVerbs(args []string) error {
	contexts, err1 := strconv.Atoi(args[2])
	objects, err2 := strconv.Atoi(args[3])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var words strings.Builder
	first := -1
	for i := range contexts {
		fd, err := unix.Open(args[1], unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			err = getContext(fd)
		}
		fmt.Fprintf(&words, "context %d: %s\n", i+1, answer(err))
		if err == nil && first < 0 {
			first = fd
		}
	}
	for i := range objects {
		fmt.Fprintf(&words, "object %d: %s\n", i+1, answer(allocPD(first)))
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM)
	words.WriteString("done\n")
	if err := os.WriteFile(args[0], []byte(words.String()), 0o644); err != nil {
		return err
	}
	<-stop
	return nil
}

// said waits until a user of verbs has done its work, and returns its words.
func said(t *testing.T, file string) (text string) {
	t.Helper()
	inside.Eventually(t, "a program uses verbs", time.Minute, func() error {
		data, err := os.ReadFile(file)
		if text = string(data); err == nil && !strings.HasSuffix(text, "done\n") {
			err = fmt.Errorf("%s has %q", file, text)
		}
		return err
	})
	return text
}

// answer is the kernel's, as the name of its errno.
func answer(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return fmt.Sprintf("%s (%s)", unix.ErrnoName(errno), errno)
	}
	return "ok"
}

// The commands of struct ib_uverbs_cmd_hdr.
const (
	cmdGetContext = 0
	cmdAllocPD    = 3
)

func getContext(fd int) error { return command(fd, cmdGetContext, 2) }
func allocPD(fd int) error    { return command(fd, cmdAllocPD, 1) }

// response is where the kernel writes; it is no local variable, since stacks move.
var response [8]uint32

// command writes a command that has nothing but the address of its response of that
// many words.
func command(fd int, number uint32, words uint16) error {
	request := binary.NativeEndian.AppendUint32(nil, number)
	request = binary.NativeEndian.AppendUint16(request, 4) // in_words: header and address
	request = binary.NativeEndian.AppendUint16(request, words)
	request = binary.NativeEndian.AppendUint64(request, uint64(uintptr(unsafe.Pointer(&response))))
	_, err := unix.Write(fd, request)
	return err
}
