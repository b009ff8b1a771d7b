package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestKnownWhileItMoves: an HCA that is read while the kernel takes its files away stays known as it
// was: interfaces are attached by that.
func TestKnownWhileItMoves(t *testing.T) {
	root := rdmatest.Root(t, "roce-sriov")
	n := opened(t, Config{Sys: sysfs.DirFS(filepath.Join(root, "sys"))})
	const name = "pci-0000-3b-00-0"
	before, ok := n.Host().Known(name)
	must.True(t, ok && before.Protocol == rdma.ProtocolRoCE, must.Sprintf("known is %+v, %v", before, ok))
	ports, err := filepath.EvalSymlinks(filepath.Join(root, "sys/class/infiniband", before.IBDev, "ports"))
	if err == nil {
		err = os.RemoveAll(ports)
	}
	must.NoError(t, err)
	err = n.Rescan()
	host := n.Host()
	must.True(t, err == nil && host.Lookup(name) != nil && len(host.Lookup(name).Ports) == 0,
		must.Sprintf("the host has %+v, %v", host.Snapshot, err))
	after, _ := n.Host().Known(name)
	test.True(t, after.Protocol == before.Protocol && len(after.Ports) == len(before.Ports),
		test.Sprintf("known is %+v, and was %+v", after, before))
}
