package vm_test

import (
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// What the kernel says when links fail and devices come, go and change their names,
// and how soon it is known.
func TestEvents(t *testing.T) {
	t.Parallel() // its machine has one CPU
	v := vmtest.Open(t)
	vmtest.Run(t, v, "./inside/events", vm.Cmd{Devices: devices, Timeout: 30 * time.Minute})
}
