package report

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kube/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestOwner: who has an HCA alone is named, and who shares it is not.
func TestOwner(t *testing.T) {
	const hca = "pci-0000-19-00-0"
	claim := func(name, device string) *plan.Plan {
		return &plan.Plan{Namespace: "team-a", Name: name, Devices: []plan.Device{{Device: device}}}
	}
	group := &plan.Plan{Namespace: "team-a", Name: "all", Devices: []plan.Device{{Device: "group-all", Members: []string{hca, "other"}}}}
	monitor := claim("monitor", hca)
	monitor.Devices[0].AdminAccess = true
	twice := claim("hca", hca)
	twice.Devices = append(twice.Devices, twice.Devices[0])
	pods := podresources.Claims{
		{Namespace: "team-a", Name: "hca"}:   {{Name: "trainer-0"}},
		{Namespace: "team-a", Name: "two"}:   {{Name: "a"}, {Name: "b"}},
		{Namespace: "team-a", Name: "picky"}: {{Name: "a", Devices: []string{hca}}, {Name: "b", Devices: []string{"pci-0000-29-00-0"}}},
		{Namespace: "team-b", Name: "hca"}:   {{Name: "stranger"}},
	}
	for name, tc := range map[string]struct {
		plans       []*plan.Plan
		want        metrics.Owner
		allocations int
	}{
		"nobody":               {nil, metrics.Owner{}, 0},
		"claim and pod":        {[]*plan.Plan{claim("hca", hca)}, metrics.Owner{Namespace: "team-a", Claim: "hca", Pod: "trainer-0"}, 1},
		"claim without a pod":  {[]*plan.Plan{claim("idle", hca)}, metrics.Owner{Namespace: "team-a", Claim: "idle"}, 1},
		"claim of two pods":    {[]*plan.Plan{claim("two", hca)}, metrics.Owner{Namespace: "team-a", Claim: "two"}, 2},
		"one of two uses it":   {[]*plan.Plan{claim("picky", hca)}, metrics.Owner{Namespace: "team-a", Claim: "picky", Pod: "a"}, 1},
		"two claims share it":  {[]*plan.Plan{claim("hca", "shared-"+hca), claim("idle", "shared-"+hca)}, metrics.Owner{}, 2},
		"member of a group":    {[]*plan.Plan{group}, metrics.Owner{Namespace: "team-a", Claim: "all"}, 1},
		"monitored":            {[]*plan.Plan{claim("hca", hca), monitor}, metrics.Owner{Namespace: "team-a", Claim: "hca", Pod: "trainer-0"}, 1},
		"monitored only":       {[]*plan.Plan{monitor}, metrics.Owner{}, 0},
		"two requests have it": {[]*plan.Plan{twice}, metrics.Owner{Namespace: "team-a", Claim: "hca", Pod: "trainer-0"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := ownersOf(tc.plans, pods)
			test.EqOp(t, tc.want, o.of(hca), test.Sprint("owner"))
			test.Eq(t, tc.allocations, len(o[hca]), test.Sprint("allocations"))
		})
	}
}

// TestOrder: where not all counters can be read, those of claims come first and those of
// idle functions last, and what is left out is counted.
func TestOrder(t *testing.T) {
	snap := rdmatest.Snapshot(t, "roce-sriov")
	vf := snap.HCAs[4].Name
	devices := describe(snap, owners{vf: {{Device: vf}}})
	var got []string
	for _, m := range devices[:4] {
		got = append(got, m.Function)
	}
	if diff := cmp.Diff([]string{"vf", "pf", "pf", "vf"}, got); diff != "" || devices[0].Name != vf {
		t.Errorf("order (-want +got), %s first:\n%s", devices[0].Name, diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	test.Eq(t, 0, readAllCounters(ctx, fstest.MapFS{}, devices), test.Sprint("HCAs are left out without a reason"))
	cancel()
	test.Eq(t, len(devices), readAllCounters(ctx, fstest.MapFS{}, devices))
}

// TestBound: on the largest host a scrape has no more series than documented, in whole
// HCAs.
func TestBound(t *testing.T) {
	m, err := fixture.Load("aws-p5")
	must.NoError(t, err)
	snap, sys := rdmatest.Snapshot(t, "aws-p5"), m.FS(t)
	var many []metrics.Device
	for range 20 { // of 32 EFAs
		many = append(many, describe(snap, nil)...)
	}
	omitted := readAllCounters(t.Context(), sys, many)
	series := 0
	for _, d := range many {
		series += len(d.Counters.Hardware)
		for _, p := range d.Ports {
			if n := len(p.Counters.Standard) + len(p.Counters.Hardware); n > 0 {
				series += n + perPort
			}
		}
	}
	const most = maxCounters + 100
	test.True(t, series <= most && series >= maxCounters && omitted != 0,
		test.Sprintf("%d series, %d of %d HCAs left out", series, omitted, len(many)))
}

// TestContainers: what a container holds belongs to the claim of the HCA; containers
// with an HCA that no claim has are not there.
func TestContainers(t *testing.T) {
	const dir = "kubepods/pod0f1e2d3c-0000-4000-8000-00000000000a/1111111111111111111111111111111111111111111111111111111111111111/"
	snap := &rdma.Snapshot{HCAs: []rdma.HCA{{Name: "a", IBDev: "mlx5_0"}, {Name: "b", IBDev: "mlx5_1"}}}
	owner := metrics.Owner{Namespace: "team-a", Claim: "hca"}
	got := containers(fstest.MapFS{
		"cgroup.controllers": {Data: []byte("rdma")},
		dir + "rdma.current": {Data: []byte("mlx5_0 hca_handle=1 hca_object=2\nmlx5_1 hca_handle=1 hca_object=2\nmlx5_9 hca_handle=1 hca_object=2\n")},
	}, snap, owners{"a": {{Device: "a", Owner: owner}}})
	test.True(t, len(got) == 1 && got[0].Device == "a" && got[0].Owner == owner && got[0].Objects == 2,
		test.Sprintf("containers %+v", got))
}
