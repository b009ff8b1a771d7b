package e2e

import (
	"fmt"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestExhaustion: 63 pods share an HCA, the 64th waits until one of them ends. The pod
// that ended gets a share again when another one ends. It runs before other tests have
// shares: once the scheduler still counted the four of claims that were long deleted.
func TestExhaustion(t *testing.T) {
	n := bed.Namespace(t)
	var pods []string
	for i := range 63 {
		pods = append(pods, fmt.Sprintf("p%d", i+1))
	}
	n.Apply(testbed.Template("share", "shared.hca.rdma.dev", "") + idle("share", pods...))
	n.Ready(pods...)
	for _, c := range n.Claims() {
		if r := c.Results(); len(r) != 1 || r[0].Device != shared {
			t.Errorf("claim %s has %v, want %s", c.Metadata.Name, r, shared)
		}
	}
	n.Apply(idle("share", "p64"))
	n.Pending("p64")
	n.Delete("p1")
	n.Ready("p64")
	n.Apply(idle("share", "p1"))
	n.Pending("p1")
	n.Delete("p2")
	n.Ready("p1")
}
