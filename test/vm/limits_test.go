package vm_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// The hook's limits on RDMA devices: a container above its own gets EAGAIN, and its
// neighbour on the same device has traffic.
func TestLimits(t *testing.T) {
	t.Parallel() // its machine has one CPU
	v := vmtest.Open(t)
	programs := compile(t, "rdma-hook")
	vmtest.Run(t, v, "./inside/limits", vm.Cmd{
		Dir: programs, Devices: devices[:2], MemoryMB: 2048, Timeout: 30 * time.Minute,
		Shares: []vm.Share{{Path: programs}, {Path: filepath.Dir(v.Tools()), ReadOnly: true}},
		Env:    []string{"TOOLS_ARCHIVE=" + v.Tools()},
	})
}
