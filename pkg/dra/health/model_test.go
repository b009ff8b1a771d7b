package health_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// hca is a healthy HCA with one port.
func hca(n int) rdma.HCA {
	return rdma.HCA{
		Name: fmt.Sprintf("pci-0000-%02x-00-0", n), IBDev: fmt.Sprintf("mlx5_%d", n), Function: rdma.PF,
		Protocol: rdma.ProtocolIB, NodeGUID: rdma.GUID(0xa088c20300000000 | uint64(n)),
		Uverbs: &rdma.Node{Kind: rdma.NodeUverbs, Name: fmt.Sprintf("uverbs%d", n)},
		Ports:  []rdma.Port{{Number: 1, LinkLayer: rdma.LinkInfiniBand, State: rdma.PortActive, PhysState: "LinkUp"}},
	}
}

// down takes a port down.
func down(h rdma.HCA, port int) rdma.HCA {
	h.Ports = slices.Clone(h.Ports)
	h.Ports[port-1].State, h.Ports[port-1].PhysState = rdma.PortDown, "Polling"
	return h
}

func dualPort(n int) rdma.HCA {
	h := hca(n)
	h.Ports = append(h.Ports, h.Ports[0])
	h.Ports[1].Number = 2
	return h
}

// watched is a model with a clock of its own.
type watched struct {
	*health.Model
	t   testing.TB
	now time.Time
	all []health.Transition
	obs health.Observation
	// looked is called after each observation with its transitions. It may be nil.
	looked func(told []health.Transition)
}

func watch(t testing.TB, change ...func(*health.Config)) *watched {
	t.Helper()
	cfg := health.DefaultConfig()
	for _, f := range change {
		f(&cfg)
	}
	m := health.New(cfg)
	return &watched{Model: m, t: t, now: epoch}
}

// see observes HCAs now.
func (w *watched) see(hcas ...rdma.HCA) {
	w.obs.Snapshot = &rdma.Snapshot{HCAs: hcas}
	w.look()
}

func (w *watched) look() {
	told := w.Observe(w.obs, w.now)
	w.all = append(w.all, told...)
	if w.looked != nil {
		w.looked(told)
	}
	at, ok := w.Next()
	must.True(w.t, !ok || at.After(w.now),
		must.Sprintf("the next look is due at %v, and it is %v: that would never end", at, w.now))
}

// wait lets time pass in which nothing changes, looking only when the model asks.
func (w *watched) wait(d time.Duration) {
	until := w.now.Add(d)
	for {
		at, ok := w.Next()
		if !ok || at.After(until) {
			break
		}
		w.now = at
		w.look()
	}
	w.now = until
}

// state is the verdict on a device in short.
func (w *watched) state(device string) string {
	v, ok := w.View().Verdict(device)
	if !ok {
		return "none"
	}
	out := []string{string(v.Status())}
	for _, f := range v.Faults {
		word := string(f.Condition)
		if !f.Confirmed {
			word += "?"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func (w *watched) want(device, state string) {
	w.t.Helper()
	test.Eq(w.t, state, w.state(device), test.Sprintf("after %v: %s", w.now.Sub(epoch), device))
}

func (w *watched) transitions() []string {
	var out []string
	for _, t := range w.all {
		out = append(out, fmt.Sprintf("%v %s %s", t.At.Sub(epoch), t.IBDev, t.Reason()))
	}
	return out
}

// TestDebounce: a fault counts after Down and ends after Up, and what is shorter
// leaves no trace.
func TestDebounce(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	w.want(h.Name, "Healthy")
	w.wait(time.Hour)
	w.see(down(h, 1))
	w.wait(4 * time.Second)
	w.see(h)
	w.wait(time.Hour)
	w.want(h.Name, "Healthy")

	w.see(down(h, 1))
	w.wait(4999 * time.Millisecond)
	w.want(h.Name, "Healthy")
	w.wait(time.Millisecond)
	w.want(h.Name, "Unhealthy port-down")
	w.see(h)
	w.wait(29 * time.Second)
	w.want(h.Name, "Unhealthy port-down")
	w.see(down(h, 1)) // once more: the 30 s begin anew
	w.see(h)
	w.wait(29 * time.Second)
	w.want(h.Name, "Unhealthy port-down")
	w.wait(time.Second)
	w.want(h.Name, "Healthy")
	want := []string{"2h0m9s mlx5_1 RDMAPortDown", "2h1m8s mlx5_1 RDMAPortActive"}
	test.Eq(t, want, w.transitions(), test.Sprint("transitions"))
}

// TestLookedAtRarely: what was seen once does not count, however long ago.
func TestLookedAtRarely(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	w.see(down(h, 1))
	w.now = w.now.Add(time.Hour)
	w.see(h)
	w.want(h.Name, "Healthy")
}

// TestFirstLook: what is wrong at the first look counts at once, evicts nobody
// before it is confirmed, and is soon forgotten when it passes.
func TestFirstLook(t *testing.T) {
	policy := health.Policy{Effects: map[health.Condition]resourceapi.DeviceTaintEffect{health.PortDown: resourceapi.DeviceTaintEffectNoExecute}}
	effect := func(w *watched, device string) resourceapi.DeviceTaintEffect {
		if taints := w.View().Taints(policy)[device]; len(taints) == 1 {
			return taints[0].Effect
		}
		return ""
	}
	w, starts, dead := watch(t), hca(1), hca(2)
	w.see(down(starts, 1), down(dead, 1))
	w.want(starts.Name, "Unhealthy port-down?")
	test.Eq(t, resourceapi.DeviceTaintEffectNoSchedule, effect(w, starts.Name),
		test.Sprint("effect of an unconfirmed fault"))
	w.wait(2 * time.Second)
	w.see(starts, down(dead, 1))
	w.wait(3 * time.Second)
	w.want(dead.Name, "Unhealthy port-down")
	test.Eq(t, resourceapi.DeviceTaintEffectNoExecute, effect(w, dead.Name),
		test.Sprint("effect of a confirmed fault"))
	w.wait(2 * time.Second)
	w.want(starts.Name, "Healthy")
}

// TestFlapping: a link that fails three times in a minute is down, however short
// each time is, and until it was up for half a minute.
func TestFlapping(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	for range 3 {
		w.wait(20 * time.Second)
		w.see(down(h, 1))
		w.wait(time.Second)
		w.see(h)
	}
	w.want(h.Name, "Unhealthy port-down")
	_, message := w.View().Report(h.Name, w.now)
	want := "good again, but not for 30s yet; before: " +
		"port 1 is DOWN (Polling): nothing answers: no cable, or the other end is off (3 times within 1m)"
	test.StrContains(t, message, want, test.Sprint("message"))
	w.wait(30 * time.Second)
	w.want(h.Name, "Healthy")
	for range 10 {
		w.see(down(h, 1))
		w.wait(time.Second)
		w.see(h)
		w.wait(31 * time.Second) // twice a minute is no flapping
	}
	w.want(h.Name, "Healthy")
	test.Eq(t, 2, len(w.all), test.Sprintf("transitions: %v", w.transitions()))
}

// TestTwoPorts: an HCA with one port of two up carries traffic.
func TestTwoPorts(t *testing.T) {
	w, h := watch(t), dualPort(1)
	w.see(down(h, 2))
	w.wait(time.Minute)
	w.want(h.Name, "Healthy port-degraded")
	test.Nil(t, w.View().Taints(health.Policy{})[h.Name], test.Sprint("taints"))
	w.see(down(down(h, 1), 2))
	w.wait(time.Minute)
	w.want(h.Name, "Unhealthy port-down")
	w.see(h)
	w.wait(time.Minute)
	w.want(h.Name, "Healthy")
	want := []string{"0s mlx5_1 RDMAPortsDegraded", "1m5s mlx5_1 RDMAPortDown", "2m30s mlx5_1 RDMAPortActive",
		"2m30s mlx5_1 RDMAPortsActive"}
	test.Eq(t, want, w.transitions(), test.Sprint("transitions"))
}

// TestRepresentorsDoNotCount: the ports of an embedded switch carry no traffic of
// the HCA itself.
func TestRepresentorsDoNotCount(t *testing.T) {
	w, h := watch(t), dualPort(1)
	h.Ports[1].Representor = true
	w.see(down(h, 2))
	w.want(h.Name, "Healthy")
	w.see(down(h, 1))
	w.wait(time.Minute)
	w.want(h.Name, "Unhealthy port-down")
}

// TestGone: a device that a claim holds is missed; another one just leaves.
func TestGone(t *testing.T) {
	held, free, unbound := hca(1), hca(2), hca(3)
	w := watch(t)
	w.obs.Held = []string{held.Name, unbound.Name}
	w.see(held, free, unbound)
	w.wait(time.Minute)
	w.obs.Unbound = []string{unbound.Name}
	w.see()
	w.want(free.Name, "none")
	w.wait(4 * time.Second)
	w.want(held.Name, "Healthy") // a driver is reloaded
	w.wait(time.Second)
	w.want(held.Name, "Unhealthy device-gone")
	w.want(unbound.Name, "Unhealthy driver-unbound")
	w.wait(time.Hour)
	w.obs.Unbound = nil
	held.IBDev, unbound.IBDev = unbound.IBDev, held.IBDev // another name, the same device
	w.see(held, free, unbound)
	w.want(free.Name, "Healthy")
	w.wait(30 * time.Second)
	w.want(held.Name, "Healthy")
	w.want(unbound.Name, "Healthy")
	w.see()
	w.obs.Held = nil
	w.wait(time.Minute)
	w.look()
	w.want(held.Name, "none")
	got := len(w.all)
	test.Eq(t, 4, got, test.Sprintf("%d transitions: %v", got, w.transitions()))
}

// TestComesAndGoes: a free device that vanishes again and again is no good either.
func TestComesAndGoes(t *testing.T) {
	w, h := watch(t), hca(1)
	for range 4 {
		w.see(h)
		w.wait(time.Second)
		w.see()
		w.wait(time.Second)
	}
	w.see(h)
	w.want(h.Name, "Unhealthy device-gone")
	w.wait(30 * time.Second)
	w.want(h.Name, "Healthy")
	w.see()
	w.wait(time.Hour) // which makes it forgotten
	w.see(h)
	w.want(h.Name, "Healthy")
	test.Eq(t, 2, len(w.all), test.Sprintf("transitions: %v", w.transitions()))
}
