package resources

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestBuilder: after whatever changes, a builder makes what is made without one, and keeps
// the memory of the slices that stay the same, and of no other.
func TestBuilder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	snap := rdmatest.Snapshot(t, "roce-sriov")
	offers := offersOf(snap)
	options := Options{Consumable: true}
	var groups []Group
	var b Builder
	var last []resourceslice.Slice
	for range 300 {
		switch o := &offers[random.IntN(len(offers))]; random.IntN(8) {
		case 0:
			o.Form = []Form{FormNone, FormExclusive, FormShared, FormBoth}[random.IntN(4)]
		case 1:
			o.Taints = nil
		case 2:
			o.Taints = []resourceapi.DeviceTaint{{Key: "x", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		case 3:
			o.Draining = !o.Draining
		case 4:
			options.Counters = !options.Counters
		case 5:
			groups = []Group{{Name: "all", Members: snap.Usable(), Shares: random.Int64N(3) + 1}}[:random.IntN(2)]
		case 6:
			offers = offersOf(rdmatest.Snapshot(t, "roce-sriov")) // the same in other memory
		case 7: // nothing
		}
		now, want := b.Slices(offers, groups, snap.NetnsMode, options), Slices(offers, groups, snap.NetnsMode, options)
		must.True(t, same(want, now), must.Sprintf("-without builder +with one:\n%s", cmp.Diff(want, now)))
		for i := range min(len(last), len(now)) {
			kept := len(now[i].Devices) > 0 && len(last[i].Devices) > 0 && &last[i].Devices[0] == &now[i].Devices[0]
			equal := same(last[i], now[i])
			must.True(t, len(now[i].Devices) == 0 || kept == equal,
				must.Sprintf("slice %d is in the same memory: %v; it is equal: %v", i, kept, equal))
		}
		last = now
	}
}

// same is cmp.Equal, but takes a tenth of its time for values that are the same in each bit.
func same[T any](a, b T) bool { return reflect.DeepEqual(a, b) || cmp.Equal(a, b) }

func offersOf(snap *rdma.Snapshot) []Offer {
	var out []Offer
	for _, h := range snap.Usable() {
		out = append(out, Offer{HCA: h, Form: FormExclusive, Capacity: Capacity{Shares: 4, DefaultShares: 1, Bandwidth: new(resource.MustParse("1G"))}})
	}
	return out
}
