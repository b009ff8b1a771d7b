package dra

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// BenchmarkEventPhases is what an event costs on hosts of several sizes, without claims and
// with one for each HCA: each step from the event to what is handed to the publisher, and
// beside them the same without what an earlier event left ("build"), and what the slice
// controller of Kubernetes' library does (docs/adr/0021).
func BenchmarkEventPhases(b *testing.B) {
	for _, functions := range []int{8, 64, 1016} {
		for _, claims := range []int{0, functions} {
			b.Run(fmt.Sprintf("devices=%d/claims=%d", functions, claims), func(b *testing.B) { phases(b, functions, claims) })
		}
	}
}

func phases(b *testing.B, functions, claims int) {
	n := drivertest.NewSharedNode(b, "none")
	d, sys := countedDriver(b, n, largeHost(b, functions))
	hcas := d.host.snapshot().HCAs
	for i := range claims {
		p := &plan.Plan{UID: types.UID(fmt.Sprint("uid-", i)), Namespace: "ns", Name: fmt.Sprint("claim-", i), Devices: []plan.Device{{Device: hcas[i].Name}}}
		if err := d.claims.Claim(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
	last := &hcas[functions-1]
	sys.port = "/" + last.IBDev + "/ports/1/"
	ctx := context.Background()
	d.judge(ctx, time.Now())
	change := rdma.Changes{IBDevs: rdma.NamesOf(last.IBDev)}
	flip := func() { sys.failed.Store(!sys.failed.Load()) }
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			flip()
			if err := d.host.update(change); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("judge", func(b *testing.B) {
		for b.Loop() {
			flip()
			if err := d.host.update(change); err != nil {
				b.Fatal(err)
			}
			d.judge(ctx, time.Now())
		}
	})
	b.Run("plans", func(b *testing.B) {
		for b.Loop() {
			d.plans(ctx)
		}
	})
	plans := d.plans(ctx)
	snap := d.host.snapshot()
	b.Run("decide", func(b *testing.B) {
		for b.Loop() {
			d.decide(snap, plans, d.taints())
		}
	})
	decided := d.decide(snap, plans, d.taints())
	for name, builder := range map[string]*resources.Builder{"build": nil, "rebuild": {}} {
		b.Run(name, func(b *testing.B) {
			offers := decided.Offers()
			for b.Loop() {
				offers[functions-1].Draining = !offers[functions-1].Draining
				cmp.Or(builder, &resources.Builder{}).Slices(offers, nil, decided.NetnsMode, decided.Options)
			}
		})
	}
	one, two := decided.Slices(), decided.Slices()
	b.Run("equal", func(b *testing.B) {
		for b.Loop() {
			equality.Semantic.DeepEqual(one, two)
		}
	})
	b.Run("libraryCopy", func(b *testing.B) {
		all := resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{"x": {Slices: one}}}
		for b.Loop() {
			all.DeepCopy()
		}
	})
	b.Run("libraryCompare", func(b *testing.B) {
		for b.Loop() {
			for i, s := range one {
				resourceslice.DevicesDeepEqual(s.Devices, two[i].Devices)
			}
		}
	})
}
