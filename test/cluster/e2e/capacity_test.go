package e2e

import (
	"fmt"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestExhaustion: an HCA has 63 shares, here of pods with nine each, and the 64th waits
// until one of these ends. The pod that ended gets its shares again when another one
// ends. The pods come one after the other, since the scheduler of Kubernetes 1.37 counts the
// shares of a pod twice while it binds it (docs/dev/upstream-shares-counted-twice.md). It runs before other tests have shares: once the scheduler still counted the four
// of claims that were long deleted.
func TestExhaustion(t *testing.T) {
	needs.Long(t, "TestExhaustion of pkg/dra/policy asks the scheduler's allocator; TestShares of this package has pods")
	const shares, each = 63, 9
	n := bed.Namespace(t)
	manifest := testbed.Template("share", "shared.hca.rdma.dev", "")
	n.Apply(manifest)
	for i := range shares / each {
		name := fmt.Sprintf("p%d", i+1)
		n.Apply(idleWith("share", name, each))
		n.Ready(name)
	}
	claims := n.Claims()
	if len(claims) != shares {
		t.Errorf("there are %d claims, want %d", len(claims), shares)
	}
	for _, c := range claims {
		if r := c.Results(); len(r) != 1 || r[0].Device != testbed.SharedStorage {
			t.Errorf("claim %s has %v, want %s", c.Metadata.Name, r, testbed.SharedStorage)
		}
	}
	n.Apply(idle("share", "late"))
	n.Pending("late")
	n.Delete("p1")
	n.Ready("late")
	n.Apply(idleWith("share", "p1", each)) // eight are free
	n.Pending("p1")
	n.Delete("p2")
	n.Ready("p1")
}
