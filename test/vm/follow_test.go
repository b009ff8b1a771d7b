package vm_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
)

// The driver on a node in exclusive network namespace mode, where HCAs follow pods, and in shared
// mode; with the network interfaces of HCAs in both.
func TestFollow(t *testing.T) {
	shares, env := nextImage(t)
	onNode(t, "./inside/follow", cluster.WithPodGroupClaims(cluster.Options{}), vm.Cmd{
		Cable: true, Shares: shares, Env: env,
		Devices: []vm.Device{
			{Name: "rxm0", Netdev: "eth0"}, {Name: "rxm1", Netdev: "eth2"}, {Name: "rxm2", Netdev: "eth3"}, {Name: "rxm3", Netdev: "dummy0"}, {Name: "siw0", Netdev: "dummy1"},
		},
	}, "config.publishInterval=0s", "network.enabled=true",
		"hostPaths.cniBin="+cniPlugins(t),
		"config.ipam.roce.type=host-local", "config.ipam.roce.ranges[0][0].subnet=10.78.0.0/16",
		"config.rules[0].name=shares", "config.rules[0].publish=shared",
		`config.rules[0].selectors[0].cel.expression=device.attributes["rdma.dev"].ibdev == "rxm3"`,
		"config.rules[1].name=rail-0", "config.rules[1].rail=0", "config.rules[1].ipam=rail-0",
		`config.rules[1].selectors[0].cel.expression=device.attributes["rdma.dev"].ibdev in ["rxm5"\, "rxm6"]`,
		"config.ipam.rail-0.type=host-local", "config.ipam.rail-0.ranges[0][0].subnet=10.79.0.0/24",
		"config.ipam.rail-0.ranges[0][0].gateway=10.79.0.254",
		"config.rules[2].name=rail-1", "config.rules[2].rail=1", "config.rules[2].ipam=rail-1",
		`config.rules[2].selectors[0].cel.expression=device.attributes["rdma.dev"].ibdev in ["rxm7"\, "rxm8"]`,
		"config.ipam.rail-1.type=host-local", "config.ipam.rail-1.ranges[0][0].subnet=10.79.1.0/24",
		"config.ipam.rail-1.ranges[0][0].gateway=10.79.1.254",
		"deviceClasses.extra[0].name=net.hca.rdma.dev",
		`deviceClasses.extra[0].selectors[0].cel.expression=!has(device.attributes["rdma.dev"].shared) || !device.attributes["rdma.dev"].shared`,
		"deviceClasses.extra[0].config.allow.network.modes={move,macvlan,ipvlan}",
		"deviceClasses.extra[0].config.allow.network.vlans={100}",
		"deviceClasses.extra[0].config.allow.network.ipam={roce}",
		"deviceClasses.extra[0].config.allow.network.mtuMax=1500",
		"deviceClasses.extra[0].config.allow.network.addresses={10.79.0.0/16}",
		"deviceClasses.extra[0].config.allow.network.routes={10.80.0.0/16}",
		"deviceClasses.extra[0].config.allow.network.gateways={10.79.0.0/16}")
}

// nextImage has the guest find the image of another version of the driver, which only TEST_LONG needs.
func nextImage(t *testing.T) (shares []vm.Share, env []string) {
	t.Helper()
	if !needs.IsLong() {
		return nil, nil
	}
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	next := driverImage(t, checkout, "next")
	return []vm.Share{{Path: filepath.Dir(next), ReadOnly: true}}, []string{"NEXT_ARCHIVE=" + next}
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
