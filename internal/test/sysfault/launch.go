package sysfault

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Launcher is the environment variable with the path of a built launcher, for machines without Go. The launcher is
// the package launch.
const Launcher = "SYSFAULT_LAUNCHER"

// launcher builds the program that becomes a watched one, and returns a path of it. It is
// no file of any directory: it ends with this process, and nobody has to remove it.
var launcher = sync.OnceValues(func() (string, error) {
	if built := os.Getenv(Launcher); built != "" {
		return built, nil
	}
	dir, err := os.MkdirTemp("", "sysfault-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "launch")
	const launcher = "github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault/launch"
	if out, err := exec.Command("go", "build", "-o", path, launcher).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the launcher: %w\n%s", err, out)
	}
	program, err = os.Open(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), program.Fd()), nil
})

// program is the launcher, which must stay open.
var program *os.File

// Become installs the filter, hands its listener to the supervisor at a socket, and
// replaces this process. It returns only if that fails.
func Become(socket string, command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("launch %q: %w", command[0], err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("launch %q: %w", command[0], err)
	}
	file, err := conn.(*net.UnixConn).File()
	if err != nil {
		return fmt.Errorf("launch %q: %w", command[0], err)
	}
	// A filter belongs to a thread, and from here on this one is stopped at each
	// call on a file until the supervisor has the listener.
	runtime.LockOSThread()
	listener, err := install()
	if err != nil {
		return fmt.Errorf("launch %q: install the seccomp filter: %w", command[0], err)
	}
	if err := unix.Sendmsg(int(file.Fd()), []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("launch %q: hand over the listener: %w", command[0], err)
	}
	// A signal would interrupt a stopped call, and the kernel would ask twice.
	env := append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	return fmt.Errorf("launch %q: %w", command[0], syscall.Exec(path, command, env))
}

// install installs the filter for this thread and returns its listener.
func install() (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	filter := filterOf(watched)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// filterOf is the filter: ask for the watched calls, allow the others.
func filterOf(watched map[int32]kind) []unix.SockFilter {
	const load, equal, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{{Code: load, K: 0}} // the number of the call
	left := len(watched)
	for nr := range watched {
		filter = append(filter, unix.SockFilter{Code: equal, K: uint32(nr), Jt: uint8(left)})
		left--
	}
	return append(filter,
		unix.SockFilter{Code: end, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: end, K: unix.SECCOMP_RET_USER_NOTIF})
}
