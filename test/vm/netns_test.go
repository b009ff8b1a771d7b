package vm_test

import (
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// RDMA devices that follow pods: moves between network namespaces, and traffic there.
func TestNetns(t *testing.T) {
	v := vmtest.Open(t)
	vmtest.Run(t, v, "./inside/netns", vm.Cmd{
		Devices: []vm.Device{{Name: "rxm0", Netdev: "eth0"}, {Name: "siw0", Netdev: "dummy1"}},
		Timeout: 10 * time.Minute,
	})
}
