package vm_test

import (
	"os"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

// The driver on a node in exclusive network namespace mode: HCAs follow pods.
func TestFollow(t *testing.T) {
	onNode(t, "./inside/follow", vm.Cmd{
		Devices: []vm.Device{
			{Name: "rxm0", Netdev: "eth0"}, {Name: "rxm1", Netdev: "veth0"}, {Name: "rxm2", Netdev: "veth0p"}, {Name: "siw0", Netdev: "dummy1"},
		},
		Env: []string{"FOLLOW_TIMES=" + os.Getenv("FOLLOW_TIMES")},
	}, "nri.enabled=true", "network.moveDevices=true", "config.publishInterval=0s")
}
