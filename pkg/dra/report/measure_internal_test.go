package report

import (
	"context"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestOwner: who has an HCA alone is named, and who shares it is not.
func TestOwner(t *testing.T) {
	const hca = "pci-0000-19-00-0"
	pods := podresources.Claims{
		{Namespace: "team-a", Name: "hca"}:   {{Name: "trainer-0"}},
		{Namespace: "team-a", Name: "two"}:   {{Name: "a"}, {Name: "b"}},
		{Namespace: "team-a", Name: "picky"}: {{Name: "a", Devices: []string{hca}}, {Name: "b", Devices: []string{"pci-0000-29-00-0"}}},
		{Namespace: "team-b", Name: "hca"}:   {{Name: "stranger"}},
	}
	golden.Cases(t, "owner", func(t *testing.T, plans []*plan.Plan) string {
		for _, p := range plans {
			p.Namespace = "team-a"
		}
		o := ownersOf(plans, pods)
		return fmt.Sprintf("%+v, allocations: %d", o.ownerOf(hca), len(o[hca]))
	})
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
