package health_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestStorm: a thousand flaps make one transition, and one more when it is over. The same is so of the condition
// port-flapping, which is over a day later.
func TestStorm(t *testing.T) {
	for name, flap := range map[string]func(w *watched, h rdma.HCA){
		"port":   func(w *watched, h rdma.HCA) { w.see(down(h, 1)) },
		"device": func(w *watched, _ rdma.HCA) { w.see() },
	} {
		for _, gap := range []time.Duration{0, time.Millisecond, time.Second, 10 * time.Second} {
			for _, held := range []bool{false, true} {
				w, h := watch(t), hca(1)
				if held {
					w.obs.Held = []string{h.Name}
				}
				w.see(h)
				for range 1000 {
					flap(w, h)
					w.wait(gap)
					w.see(h)
					w.wait(gap)
				}
				w.wait(25 * time.Hour)
				w.look()
				w.wait(time.Minute)
				w.want(h.Name, "Healthy")
				told := map[health.Condition]int{}
				for _, tr := range w.all {
					told[tr.Condition]++
				}
				flapping, other := told[health.PortFlapping], told[health.PortDown]+told[health.DeviceGone]
				test.True(t, other == 2 && flapping+other == len(w.all) && (flapping == 0 || flapping == 2),
					test.Sprintf("%s flaps every %v, held %v: transitions %v", name, gap, held, w.transitions()))
			}
		}
	}
}

// world is a random host of one observation, whose ports are in one of those states.
func world(r *rand.Rand, hcas []rdma.HCA, states ...rdma.PortState) health.Observation {
	o := health.Observation{Snapshot: &rdma.Snapshot{}, Readings: map[health.PortID]health.Reading{}}
	for _, h := range hcas {
		if r.IntN(3) == 0 {
			o.Held = append(o.Held, h.Name)
		}
		if r.IntN(5) == 0 {
			if r.IntN(2) == 0 {
				o.Unbound = append(o.Unbound, h.Name)
			}
			continue
		}
		h.Ports = slices.Clone(h.Ports)[:1+r.IntN(len(h.Ports))]
		for i := range h.Ports {
			h.Ports[i].State = states[r.IntN(len(states))]
			routable := r.IntN(2) == 1
			o.Readings[health.PortID{Device: h.Name, Port: i + 1}] = health.Reading{
				RoutableGID: &routable, Counters: map[string]uint64{"link_downed": uint64(r.IntN(255))},
			}
		}
		if r.IntN(6) == 0 {
			h.NodeGUID = 0
		}
		if r.IntN(6) == 0 {
			h.Uverbs = nil
		}
		o.Snapshot.HCAs = append(o.Snapshot.HCAs, h)
	}
	return o
}

// TestAnyHistory: whatever came before, a host that stays as it is ends in the state
// that a model with no history ends in, no look is due in the past, and each
// transition is the opposite of the one before it.
func TestAnyHistory(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		roce := dualPort(3)
		roce.Protocol = rdma.ProtocolRoCE
		hcas := []rdma.HCA{hca(1), dualPort(2), roce}
		w := watch(t)
		told := alternation{holds: map[string]map[health.Condition]bool{}, leftAt: map[string]time.Time{}}
		for range 200 {
			w.obs = world(r, hcas, rdma.PortActive, rdma.PortDown, rdma.PortInit, "")
			w.look()
			must.NoError(t, told.check(w, hcas), must.Sprintf("seed %d", seed))
			if r.IntN(2) == 0 {
				w.wait(time.Duration(r.Int64N(int64(40 * time.Second))))
			}
		}
		fresh := watch(t)
		fresh.obs = world(r, hcas, rdma.PortActive, rdma.PortDown) // what cannot be read stays as it was
		w.obs = fresh.obs
		for _, m := range []*watched{w, fresh} {
			m.look()
			for range 26 { // what counters had in them leaks out, and what fell is of yesterday
				m.wait(time.Hour)
				m.look()
			}
			m.wait(time.Hour)
		}
		for _, h := range hcas {
			got, want := w.state(h.Name), fresh.state(h.Name)
			must.Eq(t, want, got, must.Sprintf("seed %d: %s ends", seed, h.Name))
		}
	}
}

// alternation checks that what begins ends before it begins again, unless the model
// has forgotten the device in between.
type alternation struct {
	holds  map[string]map[health.Condition]bool // by device
	leftAt map[string]time.Time
	told   int
}

func (a *alternation) check(w *watched, devices []rdma.HCA) error {
	for _, h := range devices {
		_, there := w.View().Verdict(h.Name)
		left, away := a.leftAt[h.Name]
		switch {
		case there && away && w.now.Sub(left) > time.Minute:
			delete(a.holds, h.Name)
			delete(a.leftAt, h.Name)
		case there:
			delete(a.leftAt, h.Name)
		case !away:
			a.leftAt[h.Name] = w.now
		}
	}
	for _, tr := range w.all[a.told:] {
		if a.holds[tr.Device] == nil {
			a.holds[tr.Device] = map[health.Condition]bool{}
		}
		if a.holds[tr.Device][tr.Condition] == tr.Holds {
			return fmt.Errorf("%s of %s is told twice", tr.Reason(), tr.Device)
		}
		a.holds[tr.Device][tr.Condition] = tr.Holds
	}
	a.told = len(w.all)
	return nil
}

// TestTransitionsAreBounded: however wild the host, a condition of a port needs Up to
// end, so an hour cannot have more transitions than that allows.
func TestTransitionsAreBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w, h := watch(t), hca(1)
	w.see(h)
	for w.now.Before(epoch.Add(time.Hour)) {
		if r.IntN(2) == 0 {
			w.see(h)
		} else {
			w.see(down(h, 1))
		}
		w.wait(time.Duration(r.Int64N(int64(time.Duration(1+r.IntN(60)) * time.Second))))
	}
	most := 2 * int(time.Hour/(30*time.Second))
	test.True(t, len(w.all) <= most && len(w.all) != 0,
		test.Sprintf("%d transitions in an hour, want some and at most %d", len(w.all), most))
	for i := 1; i < len(w.all); i++ {
		gap := w.all[i].At.Sub(w.all[i-1].At)
		test.True(t, w.all[i].Holds || gap >= 30*time.Second, test.Sprintf("a fault ended after %v", gap))
	}
}

// TestClockGoesBack: a clock that is set back neither loses a fault nor makes one.
func TestClockGoesBack(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	w.now = w.now.Add(-time.Hour)
	w.Observe(health.Observation{Snapshot: &rdma.Snapshot{HCAs: []rdma.HCA{down(h, 1)}}}, w.now)
	w.want(h.Name, "Healthy")
	w.now = epoch
	w.see(down(h, 1))
	w.wait(5 * time.Second)
	w.want(h.Name, "Unhealthy port-down")
}

// BenchmarkObserve takes one flap among 1,016 HCAs.
func BenchmarkObserve(b *testing.B) {
	w := watch(b)
	var hcas []rdma.HCA
	for i := range 1016 {
		h := hca(i)
		h.Name += string(rune('a'+i%26)) + string(rune('a'+i/26))
		hcas = append(hcas, h)
	}
	flapping := slices.Clone(hcas)
	flapping[500] = down(flapping[500], 1)
	w.see(hcas...)
	for b.Loop() {
		w.now = w.now.Add(time.Second)
		w.see(flapping...)
		flapping, hcas = hcas, flapping
	}
}

// TestClockIsSet: whoever sets the clock of the node, by an hour ahead or back, again and again, changes
// nothing of what holds when.
func TestClockIsSet(t *testing.T) {
	hcas := []rdma.HCA{hca(1), hca(2), hca(2)}
	for i := range hcas {
		hcas[i].Name = fmt.Sprint("hca", i)
	}
	start := time.Now()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 7))
		steady, set := newModel(t), newModel(t)
		now := start
		for range 40 {
			now = now.Add(time.Duration(r.IntN(20)) * time.Second)
			jumped := drivertest.Jumped(now, time.Duration(r.IntN(5)-2)*time.Hour)
			o := world(r, hcas, rdma.PortActive, "DOWN", "")
			want, got := fmt.Sprint(happened(steady.Observe(o, now))), fmt.Sprint(happened(set.Observe(o, jumped)))
			must.Eq(t, want, got, must.Sprintf("seed %d: transitions", seed))
			next, due := steady.Next()
			nextSet, dueSet := set.Next()
			must.True(t, due == dueSet && next.Sub(now) == nextSet.Sub(jumped),
				must.Sprintf("seed %d: the next look is due in %v, want %v", seed, nextSet.Sub(jumped),
					next.Sub(now)))
			for _, h := range hcas {
				want, got := steady.View().Taints(health.Policy{})[h.Name], set.View().Taints(health.Policy{})[h.Name]
				must.Eq(t, fmt.Sprint(want), fmt.Sprint(got),
					must.Sprintf("seed %d: taints of %s are %s, want %s", seed, h.Name, got, want))
				wantStatus, _ := steady.View().Report(h.Name, now.Add(time.Minute))
				gotStatus, _ := set.View().Report(h.Name, drivertest.Jumped(now.Add(time.Minute), -3*time.Hour))
				must.Eq(t, wantStatus, gotStatus, must.Sprintf("seed %d: %s is reported", seed, h.Name))
			}
		}
	}
}

func newModel(t *testing.T) *health.Model {
	t.Helper()
	m := health.New(health.DefaultConfig())
	return m
}

func happened(transitions []health.Transition) []string {
	var out []string
	for _, one := range transitions {
		out = append(out, one.Device+" "+one.Reason()+" "+one.Message)
	}
	return out
}
