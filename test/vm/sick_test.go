package vm_test

import (
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// Firmware that fails, links that fall and links that lose packets, under a driver on a real kernel.
func TestSick(t *testing.T) {
	needs.Long(t, "readings twice a minute take minutes; TestKernelAnswers has the kernel's answers, and TestFirmware "+
		"and TestFlappingWithinADay what follows from them")
	v := vmtest.Open(t)
	vmtest.Run(t, v, "./inside/sick", vm.Cmd{
		Devices: []vm.Device{{Name: "rxe0", Netdev: "veth0"}, {Name: "rxe1", Netdev: "veth0p"}}, MemoryMB: 2048,
		Timeout: 30 * time.Minute,
	})
}
