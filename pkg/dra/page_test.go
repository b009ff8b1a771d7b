package dra_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// reasons lists the events of a page, the newest first.
func reasons(p *nodestatus.Status) []string {
	var out []string
	for _, e := range p.Events {
		out = append(out, fmt.Sprintf("%s %s x%d", e.Reason, e.Object, e.Count))
	}
	return out
}

// TestPage: the page follows what happens to claims and to the driver.
func TestPage(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	drivertest.WaitPublished(t, n)
	c, late := drivertest.Claim(1, dev0), drivertest.Claim(2, dev0)
	n.AddClaim(c, late)
	n.AddPod("trainer-0", c)
	prepare(t, n, c)
	for range 2 {
		_, err := n.Prepare(t.Context(), late)
		must.NoError(t, err)
	}
	waitProblems(t, d, 0)
	p := d.Status(t.Context())
	test.True(t, p.Node == drivertest.NodeName && p.Registered && len(p.Problems) == 0 && len(p.HCAs) == 9 &&
		len(p.Topology.HCAs()) == 9, test.Sprintf("page %+v", p))
	h := p.HCAs[0]
	test.True(t, h.Name == dev0 && h.Health == "Healthy" && slices.Equal(h.Claims, []string{"team-a/claim-1"}) &&
		len(h.Devices) == 1 && h.Devices[0].Name == dev0, test.Sprintf("HCA %+v", h))
	test.Eq(t, "team-a/claim-1", p.Topology.HCAs()[0].Note, test.Sprint("the picture notes"))
	test.True(t, len(p.Claims) == 1 && slices.Equal(p.Claims[0].Pods, []string{"trainer-0"}) &&
		slices.Equal(p.Claims[0].Devices[0].HCAs, []string{"mlx5_0"}), test.Sprintf("claims %+v", p.Claims))
	got := reasons(p)
	for _, want := range []string{"RDMAPrepareFailed team-a/claim-2 x2", "Prepared team-a/claim-1 x1", "Registered " + drivertest.NodeName + " x1"} {
		test.True(t, slices.Contains(got, want), test.Sprintf("events %q lack %q", got, want))
	}
	published := func(e nodestatus.Event) bool {
		return e.Reason == "Published" && e.Message == "the pool has 9 devices"
	}
	test.True(t, slices.ContainsFunc(p.Events, published),
		test.Sprintf("events %+v do not tell of a publication", p.Events))
	unprepare(t, n, c)
	p = d.Status(t.Context())
	test.True(t, len(p.Claims) == 0 && len(p.HCAs[0].Claims) == 0 &&
		reasons(p)[0] == "Unprepared team-a/claim-1 x1",
		test.Sprintf("after the claim: %+v, %v", p.Claims, reasons(p)))
}

// TestPageExclusive: what is wrong with the whole node stands at the top.
func TestPageExclusive(t *testing.T) {
	d := start(t, drivertest.NewNode(t, "exclusive-netns"))
	waitProblems(t, d, 1)
	_, _, d = follow(t, nil)
	waitProblems(t, d, 1)
	page := d.Status(t.Context())
	test.Eq(t, "not connected", page.NRI)
	test.StrContains(t, page.Problems[0], "pods with claims do not start")
}

// waitProblems waits until a page has so many problems: one goes when the driver knows that the API server has of the
// node what it should have.
func waitProblems(t *testing.T, d *driver, want int) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		if p := d.Status(t.Context()); len(p.Problems) != want {
			return fmt.Errorf("problems %q", p.Problems)
		}
		return nil
	})
}

// TestPageGone: an HCA that a claim holds stays on the page when it is gone.
func TestPageGone(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	events := make(chan watch.Signal, 1)
	d := startHearing(t, n, events)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	prepare(t, n, c)
	n.Become(t, drivertest.Without(t, "hgx-h100", "mlx5_0", "uverbs0", "umad0", "issm0"))
	events <- watch.Signal{Changes: rdma.Changes{All: true}}
	drivertest.Eventually(t, func() error {
		p := d.Status(t.Context())
		i := slices.IndexFunc(p.HCAs, func(h nodestatus.HCA) bool { return h.Name == dev0 })
		if i < 0 || p.HCAs[i].Health != "Unhealthy" || len(p.Topology.HCAs()) != 8 {
			return fmt.Errorf("page %+v", p.HCAs)
		}
		return nil
	})
}
