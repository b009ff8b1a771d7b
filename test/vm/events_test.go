package vm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/lldptest"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// What the kernel says when links fail and devices come, go and change their names,
// and how soon it is known; and what switches say to networkd, which is the program of Debian 13.
func TestEvents(t *testing.T) {
	t.Parallel() // its machine has one CPU
	v := vmtest.Open(t)
	dir, command := lldptest.Networkd(t)
	vmtest.Run(t, v, "./inside/events", vm.Cmd{
		Devices: devices, Timeout: 30 * time.Minute, Shares: []vm.Share{{Path: dir, ReadOnly: true}},
		Env: []string{vmtest.NetworkdVariable + "=" + strings.Join(command, " ")},
	})
}
