package vm_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

// The driver on a node in exclusive network namespace mode, where HCAs follow pods, and in shared
// mode; with the network interfaces of HCAs in both.
func TestFollow(t *testing.T) {
	onNode(t, "./inside/follow", vm.Cmd{
		Cable: true,
		Devices: []vm.Device{
			{Name: "rxm0", Netdev: "eth0"}, {Name: "rxm1", Netdev: "eth2"}, {Name: "rxm2", Netdev: "eth3"}, {Name: "rxm3", Netdev: "dummy0"}, {Name: "siw0", Netdev: "dummy1"},
		},
	}, "config.publishInterval=0s", "nri.enabled=true", "network.moveDevices=true", "network.attachInterfaces=true",
		"network.cniBinDir="+cniPlugins(t),
		"config.ipam.roce.type=host-local", "config.ipam.roce.ranges[0][0].subnet=10.78.0.0/16",
		"config.rules[0].name=shares", "config.rules[0].publish=shared",
		`config.rules[0].selectors[0].cel.expression=device.attributes["rdma.dev"].ibdev == "rxm3"`,
		"extraDeviceClasses[0].name=net.hca.rdma.dev",
		`extraDeviceClasses[0].selectors[0].cel.expression=!has(device.attributes["rdma.dev"].shared) || !device.attributes["rdma.dev"].shared`,
		"extraDeviceClasses[0].config.allow.network.modes={move,macvlan}",
		"extraDeviceClasses[0].config.allow.network.addresses={10.79.0.0/16}",
		"extraDeviceClasses[0].config.allow.network.routes={10.80.0.0/16}")
}

// cniPlugins is the directory of CNI plugins among the programs of the cluster.
func cniPlugins(t *testing.T) string {
	t.Helper()
	_, path := clusterPrograms(t)
	for _, dir := range filepath.SplitList(path) {
		if _, err := exec.LookPath(filepath.Join(dir, "host-local")); err == nil {
			return dir
		}
	}
	t.Fatalf("no CNI plugin host-local in %s", path)
	return ""
}
