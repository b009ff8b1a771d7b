package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/lldptest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// What the kernel says when links fail and devices come, go and change their names,
// and how soon it is known; and what switches say to networkd, which is the host's program.
func TestEvents(t *testing.T) {
	t.Parallel() // its machine has one CPU
	v := vmtest.Open(t)
	dir, command := movable(t, lldptest.Daemon)
	vmtest.Run(t, v, "./inside/events", vm.Cmd{
		Devices: devices, Timeout: 30 * time.Minute, Shares: []vm.Share{{Path: dir, ReadOnly: true}},
		Env: []string{vmtest.NetworkdVariable + "=" + command},
	})
}

// movable returns a directory with a program of this machine and all libraries that it loads, and the command that runs
// it from there on any machine.
func movable(t *testing.T, program string) (dir, command string) {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		needs.Missing(t, err)
	}
	libraries, err := exec.CommandContext(t.Context(), "ldd", program).Output()
	must.NoError(t, err, must.Sprintf("list the libraries of %s", program))
	dir = t.TempDir()
	command = filepath.Join(dir, filepath.Base(program))
	copies, loader := []string{program}, ""
	for _, library := range regexp.MustCompile(`/[^ ]+`).FindAllString(string(libraries), -1) {
		copies = append(copies, library)
		if strings.HasPrefix(filepath.Base(library), "ld-linux") {
			loader = filepath.Join(dir, filepath.Base(library))
		}
	}
	for _, from := range copies {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(from)), data, 0o755)
		}
		must.NoError(t, err)
	}
	return dir, loader + " --library-path " + dir + " " + command
}
