package dra_test

import (
	"errors"
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// swept is what the driver says after a sweep without an error.
const swept = "Looked for claims that nobody can use any more"

// TestOrphans: a claim whose Unprepare never came is forgotten only when the API
// server says that its UID is gone and the kubelet does not list it. On any doubt
// it stays: its device may be in a living pod.
func TestOrphans(t *testing.T) {
	t.Parallel()
	gone := func(n *drivertest.Node, c *resourceapi.ResourceClaim) { n.RemoveClaim(c) }
	for _, tc := range []struct {
		name    string
		prepare func(n *drivertest.Node, c *resourceapi.ResourceClaim)
		says    string
		asks    bool // the API server
		stays   bool
	}{
		{"claim is there", func(*drivertest.Node, *resourceapi.ResourceClaim) {}, swept, true, true},
		{"claim is gone", gone, "Forgetting a claim", true, false},
		{"another claim of the name", func(n *drivertest.Node, c *resourceapi.ResourceClaim) {
			next := c.DeepCopy()
			next.UID = "another"
			n.AddClaim(next)
		}, "Forgetting a claim", true, false},
		{"gone, and a pod uses it", func(n *drivertest.Node, c *resourceapi.ResourceClaim) { gone(n, c); n.SetPods(nil, c) }, swept, false, true},
		{"the API server fails", func(n *drivertest.Node, c *resourceapi.ResourceClaim) {
			gone(n, c)
			n.Fail(drivertest.GetClaim, 500)
		}, "Orphaned claims not swept", true, true},
		{"the API server forbids", func(n *drivertest.Node, c *resourceapi.ResourceClaim) {
			gone(n, c)
			n.Fail(drivertest.GetClaim, 403)
		}, "Orphaned claims not swept", true, true},
		{"gone, and the kubelet fails", func(n *drivertest.Node, c *resourceapi.ResourceClaim) {
			gone(n, c)
			n.SetPods(errors.New("the kubelet is busy"))
		}, "Orphaned claims not swept", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, "hgx-h100")
			d := start(t, n)
			c := drivertest.ForPod(drivertest.Claim(1, dev0), podA)
			n.AddClaim(c)
			ids := prepare(t, n, c)
			d.stop()
			tc.prepare(n, c)
			asked, lists := n.Count(drivertest.GetClaim), n.PodLists()
			d = start(t, n) // which sweeps at once
			if tc.says != "" {
				d.says(tc.says)
			}
			drivertest.Eventually(t, func() error {
				if n.PodLists() == lists || tc.asks && n.Count(drivertest.GetClaim) == asked {
					return errNotAsked
				}
				return nil
			})
			d.stop() // waits for the sweep
			test.True(t, tc.asks || n.Count(drivertest.GetClaim) == asked,
				test.Sprint("the API server was asked for what the kubelet knows"))
			if !tc.stays {
				wantFiles(t, n)
				return
			}
			wantFiles(t, n, c)
			test.NoError(t, drivertest.CheckSpecs(n.CDIDir, ids...))
		})
	}
}
