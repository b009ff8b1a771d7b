package offer

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/largehost"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
)

// BenchmarkEventPhases measures the steps of an event between the judged host and the publisher. Hosts have several
// sizes, and no claims or one for each HCA. For comparison, "build" keeps nothing from an earlier event, and the last
// two are what the slice controller of Kubernetes' library does (docs/adr/0021).
func BenchmarkEventPhases(b *testing.B) {
	for _, functions := range []int{8, 64, 1016} {
		for _, claims := range []int{0, functions} {
			b.Run(fmt.Sprintf("devices=%d/claims=%d", functions, claims), func(b *testing.B) {
				phases(b, functions, claims)
			})
		}
	}
}

func phases(b *testing.B, functions, claims int) {
	ctx := context.Background()
	store, err := claimstore.Open(drivertest.TempDir(b), claimstore.Boot{ID: "boot"})
	must.NoError(b, err)
	host, err := node.Open(node.Config{
		HostRoot: "/", Sys: largehost.New(b, functions), Store: store, Health: health.DefaultConfig(), Now: time.Now,
	})
	must.NoError(b, err)
	for i := range claims {
		p := &plan.Plan{
			UID: types.UID(fmt.Sprint("uid-", i)), Namespace: "ns", Name: fmt.Sprint("claim-", i),
			Devices: []plan.Device{{Device: host.Host().HCAs[i].Name}},
		}
		must.NoError(b, store.Claim(ctx, p))
	}
	o := New(Config{Node: host, NodeName: "node1", Now: time.Now})
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			host.View(ctx)
		}
	})
	view := host.View(ctx)
	b.Run("decide", func(b *testing.B) {
		for b.Loop() {
			o.decide(o.Policy.inForce.Load(), view)
		}
	})
	decided := o.decide(o.Policy.inForce.Load(), view)
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
