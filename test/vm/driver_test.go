package vm_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// The driver with a real API server, while hardware comes, goes and changes its names.
func TestDriver(t *testing.T) {
	v := vmtest.Open(t)
	bin, _ := clusterPrograms(t)
	checkout, err := deploy.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	const cache = "/root/cache"
	vmtest.Run(t, v, "./inside/driver", vm.Cmd{
		Dir: checkout.Path("test", "vm"), Devices: devices, MemoryMB: 3072, CPUs: 2, Timeout: 30 * time.Minute,
		Links:  map[string]string{filepath.Join(cache, "bin"): bin},
		Shares: []vm.Share{{Path: string(checkout), ReadOnly: true}, {Path: bin, ReadOnly: true}},
		Env:    []string{"DRA_RDMA_CACHE=" + cache},
	})
}
