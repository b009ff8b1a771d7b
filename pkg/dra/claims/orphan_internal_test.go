package claims

import (
	"errors"
	"net/http"
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
)

// TestOrphans: a claim whose Unprepare never came is forgotten only when the API
// server says that its UID is gone and the kubelet does not list it. On any doubt
// it stays: its device may be in a living pod.
func TestOrphans(t *testing.T) {
	gone := func(n *drivertest.Node, c *resourceapi.ResourceClaim) { n.RemoveClaim(c) }
	for _, tc := range []struct {
		name    string
		prepare func(n *drivertest.Node, c *resourceapi.ResourceClaim)
		asks    bool // the API server itself
		away    bool // which does not answer, and is asked until the caller gives up
		fails   bool // the sweep
		stays   bool
	}{
		{name: "claim is there", prepare: func(*drivertest.Node, *resourceapi.ResourceClaim) {}, asks: true, stays: true},
		{name: "claim is gone", prepare: gone, asks: true},
		{name: "another claim of the name", prepare: func(n *drivertest.Node, c *resourceapi.ResourceClaim) {
			next := c.DeepCopy()
			next.UID = "another"
			n.AddClaim(next)
		}, asks: true},
		{name: "gone, and a pod uses it", prepare: func(n *drivertest.Node, c *resourceapi.ResourceClaim) {
			gone(n, c)
			n.SetPods(nil, c)
		}, stays: true},
		{name: "the API server fails", prepare: gone, away: true, fails: true, stays: true},
		{name: "the API server forbids", prepare: func(n *drivertest.Node, c *resourceapi.ResourceClaim) {
			gone(n, c)
			n.Fail(drivertest.GetClaim, 403)
		}, asks: true, fails: true, stays: true},
		{name: "gone, and the kubelet fails", prepare: func(n *drivertest.Node, c *resourceapi.ResourceClaim) {
			gone(n, c)
			n.SetPods(errors.New("the kubelet is busy"))
		}, fails: true, stays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, "hgx-h100")
			c := drivertest.ForPod(drivertest.Claim(1, dev0), podA)
			s.node.AddClaim(c)
			ids := s.prepares(c)
			tc.prepare(s.node, c)
			s.restart()
			asked, lists := s.node.Count(drivertest.GetClaim), s.node.PodLists()
			ctx := s.ctx
			if tc.away {
				ctx, _ = s.answers(apifault.Status(http.StatusInternalServerError))
			}
			test.Eq(t, tc.fails, s.Orphans.sweep(ctx) != nil, test.Sprint("the sweep fails"))
			test.Greater(t, lists, s.node.PodLists(), test.Sprint("the kubelet was asked"))
			test.Eq(t, tc.asks, s.node.Count(drivertest.GetClaim) > asked, test.Sprint("the API server was asked"))
			if !tc.stays {
				s.hasFiles()
				return
			}
			s.hasFiles(c)
			test.NoError(t, drivertest.CheckSpecs(s.node.CDIDir, ids...))
		})
	}
}

// TestOrphanIsNotGone: something in front of the API server answers instead of it. Meanwhile a claim without a pod
// keeps its record, its spec and its HCA. They go when the API server says itself that the claim is gone.
func TestOrphanIsNotGone(t *testing.T) {
	for _, tc := range apifault.Some() {
		t.Run(tc.Name, func(t *testing.T) {
			s := serve(t, "hgx-h100")
			claim := drivertest.ForPod(drivertest.Claim(1, dev0), podA)
			s.prepares(claim)
			ctx, shot := s.answers(tc.Do)
			test.Error(t, s.Orphans.sweep(ctx), test.Sprint("the sweep"))
			s.hasFiles(claim)
			shot.Disarm()
			test.NoError(t, s.Orphans.sweep(s.ctx))
			s.hasFiles()
		})
	}
}
