package vm_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
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

// The driver on the embedded cluster, on a host in exclusive network namespace mode.
func TestFollow(t *testing.T) {
	v := vmtest.Open(t)
	bin, _ := clusterPrograms(t)
	checkout, err := deploy.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	archive := driverImage(t, checkout)
	const cache = "/root/cache"
	vmtest.Run(t, v, "./inside/follow", vm.Cmd{
		Dir: checkout.Path("test", "vm"), MemoryMB: 6144, CPUs: 2, Timeout: 30 * time.Minute,
		Devices: []vm.Device{{Name: "rxm0", Netdev: "eth0"}, {Name: "siw0", Netdev: "dummy1"}},
		Links:   map[string]string{filepath.Join(cache, "bin"): bin},
		Shares: []vm.Share{
			{Path: string(checkout), ReadOnly: true}, {Path: bin, ReadOnly: true},
			{Path: filepath.Dir(v.Tools()), ReadOnly: true}, {Path: filepath.Dir(archive), ReadOnly: true},
		},
		Env: []string{"TOOLS_ARCHIVE=" + v.Tools(), "DRIVER_ARCHIVE=" + archive, "DRA_RDMA_CACHE=" + cache},
	})
}
