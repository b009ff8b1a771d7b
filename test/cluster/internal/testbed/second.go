package testbed

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
)

// second are the options of a second node.
func (b *Bed) second() cluster.Options {
	o := b.options
	o.Join, o.Node, o.StateDir = b.options.StateDir, 2, filepath.Join(b.dir, "node2")
	return o
}

// node is the name of the bed's node.
func (b *Bed) node() string {
	name, _ := cluster.Node(max(1, b.options.Node))
	return name
}

// Second adds a node until the test ends: another machine like the first one, with the driver of its GPUs. What the bed
// returned runs in a shell is that of this node.
func (b *Bed) Second(t *testing.T) *Bed {
	t.Helper()
	other := *b
	other.options = b.second()
	t.Cleanup(func() {
		test.NoError(t, cluster.Down(context.Background(), other.options, false))
		b.Kubectl(t, "delete", "node", other.node(), "--ignore-not-found")
	})
	var err error
	if other.Cluster, err = cluster.Up(t.Context(), other.options); err != nil {
		t.Fatal(err)
	}
	must.NoError(t, b.Checkout.Load(t.Context(), other.Cluster))
	must.NoError(t, other.startGPUs(t.Context(), other.HostRoot))
	return &other
}
