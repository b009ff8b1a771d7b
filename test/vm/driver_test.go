package vm_test

import (
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/vmtest"
)

// The driver with a real API server, which is on this host, while hardware comes, goes and changes its names.
func TestDriver(t *testing.T) {
	t.Parallel() // its machine has one CPU
	v := vmtest.Open(t)
	server, err := cluster.StartControlPlane(t.Context(), t.TempDir(), cluster.Options{Progress: t.Output()})
	must.NoError(t, err)
	t.Cleanup(func() {
		test.NoError(t, server.Stop())
	})
	vmtest.Run(t, v, "./inside/driver", vm.Cmd{
		Devices: devices, Timeout: 30 * time.Minute,
		Uplink: uplinkTo(server),
		Shares: []vm.Share{{Path: server.Dir(), ReadOnly: true}},
		Env:    []string{"KUBECONFIG=" + server.Kubeconfig()},
	})
}
