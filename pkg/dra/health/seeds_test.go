package health_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// sickWorld is a host of three cards with two functions each, and what a reader of its history knows of them.
type sickWorld struct {
	*watched
	hcas  []rdma.HCA
	count []uint64
	falls [][]time.Time // by HCA
	error []bool        // of the firmware
	// published are the effects of taints by HCA, and writes is how often they changed: the publisher writes a slice
	// that differs, and no other (TestChanges of pkg/dra/publisher).
	published map[string]string
	writes    int
}

func newSickWorld(t *testing.T) *sickWorld {
	w := &sickWorld{watched: watch(t)}
	w.obs.Expected = map[string]health.Expected{}
	for i := range 6 {
		h := rated(i, 400)
		h.Identity.PCI = fmt.Sprintf("0000:%02x:00.%d", i/2, i%2)
		w.obs.Expected[h.Name] = health.Expected{MinRateMbps: 400_000}
		w.hcas = append(w.hcas, h)
	}
	w.count, w.falls, w.error = make([]uint64, 6), make([][]time.Time, 6), make([]bool, 6)
	w.looked = w.publish
	w.show()
	return w
}

// publish counts the writes of slices. Without a transition nothing is written.
func (w *sickWorld) publish(told []health.Transition) {
	taints := effectsOf(w.View().Taints(raised))
	if maps.Equal(taints, w.published) {
		return
	}
	must.NotEq(w.t, 0, len(told),
		must.Sprintf("the taints become %v without a transition, and were %v", taints, w.published))
	w.published, w.writes = taints, w.writes+1
}

// show observes the host as it is.
func (w *sickWorld) show() {
	w.obs.Readings, w.obs.Firmware = map[health.PortID]health.Reading{}, map[string][]health.Reporter{}
	for i, h := range w.hcas {
		w.obs.Firmware[h.Name] = []health.Reporter{{Name: "fw", Failed: w.error[i]}, {Name: "fw_fatal"}}
		count := w.count[i]
		w.obs.Readings[health.PortID{Device: h.Name, Port: 1}] = health.Reading{Falls: &count}
	}
	w.see(w.hcas...)
}

// flaps reports whether a reader of the history says that a link flaps at a time: three incidents of ten minutes within
// the day before.
func (w *sickWorld) flaps(i int, now time.Time) bool {
	var first time.Time
	n := 0
	for _, at := range w.falls[i] {
		if !first.IsZero() && at.Sub(first) < 10*time.Minute {
			continue
		}
		first = at
		if now.Sub(at) <= 24*time.Hour {
			n++
		}
	}
	return n >= 3
}

// TestSickSeeds: whatever links do, the conditions are what a reader of the history says, the policy's effects hold
// for at most one card, each change is told once and costs one write, and nothing is left after the recovery.
func TestSickSeeds(t *testing.T) {
	seeds := uint64(150)
	if needs.IsLong() {
		seeds = 1000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 38))
		w := newSickWorld(t)
		for range 12 {
			i := r.IntN(len(w.hcas))
			switch r.IntN(4) {
			case 0:
				w.hcas[i] = withRate(w.hcas[i], 100+100*r.IntN(5))
			case 1:
				w.error[i] = !w.error[i]
			default:
				w.count[i]++
				w.falls[i] = append(w.falls[i], w.now)
			}
			w.show()
			w.poll(3 * time.Minute)
			must.NoError(t, w.check(), must.Sprintf("seed %d", seed))
			w.now = w.now.Add(time.Duration(r.IntN(240)) * time.Minute)
		}
		for i := range w.hcas {
			w.hcas[i], w.error[i] = withRate(w.hcas[i], 400), false
		}
		w.show()
		for range 4 {
			w.now = w.now.Add(7 * time.Hour)
			w.look()
			w.wait(time.Minute)
		}
		left := w.View().Taints(raised)
		must.MapEmpty(t, left, must.Sprintf("seed %d: after the recovery there are %v", seed, effectsOf(left)))
		told, moments := map[string]bool{}, map[time.Time]bool{}
		for _, tr := range w.all {
			moments[tr.At] = true
			key := tr.Device + string(tr.Condition)
			must.NotEq(t, tr.Holds, told[key],
				must.Sprintf("seed %d: %s of %s is told twice", seed, tr.Reason(), tr.Device))
			told[key] = tr.Holds
		}
		must.LessEq(t, len(moments), w.writes,
			must.Sprintf("seed %d: %d writes for transitions at %d moments", seed, w.writes, len(moments)))
	}
}

func withRate(h rdma.HCA, gbps int) rdma.HCA {
	h.Ports = []rdma.Port{h.Ports[0]}
	h.Ports[0].RateMbps = gbps * 1000
	return h
}

// check compares the conditions with the history, and counts the cards with effects.
func (w *sickWorld) check() error {
	cards := map[string]bool{}
	sick := false
	for i, h := range w.hcas {
		want := "Healthy"
		flaps := w.flaps(i, w.now)
		if before := w.flaps(i, w.now.Add(-time.Minute)); before != flaps {
			return nil // an incident has become too old a moment ago, and the condition ends in another
		}
		if w.error[i] {
			want += " firmware"
		}
		if flaps {
			want += " port-flapping"
		}
		if h.Ports[0].RateMbps < 400_000 {
			want += " port-slow"
		}
		sick = sick || want != "Healthy"
		if got := w.state(h.Name); got != want {
			return fmt.Errorf("%s is %q, want %q", h.Name, got, want)
		}
		for _, taint := range w.View().Taints(raised)[h.Name] {
			if taint.Effect != resourceapi.DeviceTaintEffectNone {
				cards[h.Identity.PCI[:7]] = true
			}
		}
	}
	if len(cards) > 1 || sick != (len(cards) == 1) {
		return fmt.Errorf("the effects hold for %d cards: %v", len(cards), cards)
	}
	return nil
}
