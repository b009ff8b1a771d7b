package health

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestCalmDevicesAreNotJudgedAgain: a model that judges each HCA each time says the same
// after any changes, and less time is spent on HCAs that are well.
func TestCalmDevicesAreNotJudgedAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	cfg := DefaultConfig()
	lazy, diligent := New(cfg), New(cfg)
	snap := rdmatest.Snapshot(t, "roce-sriov")
	now, spared := time.Unix(1000, 0), 0
	o := Observation{Snapshot: snap, Readings: map[PortID]Reading{}}
	for range 2000 {
		now = now.Add(time.Duration(random.Int64N(int64(8 * time.Second))))
		changed := *o.Snapshot
		changed.HCAs = append([]rdma.HCA{}, changed.HCAs...)
		i := random.IntN(len(snap.HCAs))
		switch random.IntN(8) {
		case 0, 1:
			toggle(&changed.HCAs[i%len(changed.HCAs)])
		case 2:
			changed.HCAs = append(changed.HCAs[:0], snap.HCAs[random.IntN(3):]...)
		case 3:
			o.Held = []string{snap.HCAs[i].Name}
		case 4:
			id := PortID{snap.HCAs[i].Name, 1}
			o.Readings[id] = Reading{Counters: map[string]uint64{"link_downed": o.Readings[id].Counters["link_downed"] +
				random.Uint64N(3)}}
		case 5:
			o.Readings = map[PortID]Reading{}
		}
		o.Snapshot = &changed
		for _, d := range diligent.devices {
			d.stable = false
		}
		for _, d := range lazy.devices {
			if d.stable {
				spared++
			}
		}
		must.Eq(t, diligent.Observe(o, now), lazy.Observe(o, now), must.Sprint("transitions"))
		must.Eq(t, diligent.view.verdicts, lazy.view.verdicts, must.Sprint("verdicts"))
		a, okA := diligent.Next()
		b, okB := lazy.Next()
		must.True(t, a == b && okA == okB && cmp.Equal(diligent.Pending(), lazy.Pending()),
			must.Sprintf("the next look is due at %v, and for the lazy one at %v", a, b))
	}
	test.NotEq(t, 0, spared, test.Sprint("no look was spared"))
}

// toggle lets the first port of an HCA fail, or come back.
func toggle(h *rdma.HCA) {
	ports := append([]rdma.Port{}, h.Ports...)
	if ports[0].State == rdma.PortActive {
		ports[0].State = rdma.PortDown
	} else {
		ports[0].State = rdma.PortActive
	}
	h.Ports = ports
}
