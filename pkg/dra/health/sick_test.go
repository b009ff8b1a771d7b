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

// poll lets time pass as it does on a node: the host is read each half minute.
func (w *watched) poll(d time.Duration) {
	for until := w.now.Add(d); w.now.Before(until); {
		w.wait(min(30*time.Second, until.Sub(w.now)))
		w.look()
	}
}

// count sets how often the kernel has seen port 1 of an HCA fall.
func (w *watched) count(h rdma.HCA, falls uint64) {
	w.obs.Readings = map[health.PortID]health.Reading{{Device: h.Name, Port: 1}: {Falls: &falls}}
	w.look()
}

// TestFlappingWithinADay: a link that falls in three incidents within a day flaps, until a day after the first of them.
func TestFlappingWithinADay(t *testing.T) {
	fall := map[string]func(w *watched, h rdma.HCA, n uint64){
		"seen": func(w *watched, h rdma.HCA, _ uint64) {
			w.see(down(h, 1))
			w.wait(time.Second)
			w.see(h)
		},
		"counted": func(w *watched, h rdma.HCA, n uint64) { w.count(h, n) },
	}
	for how, fall := range fall {
		w, h := watch(t), hca(1)
		w.see(h)
		if how == "counted" {
			w.count(h, 7) // before the driver started
		}
		w.poll(time.Hour)
		for n := range uint64(2) {
			fall(w, h, 8+n)
			w.poll(10 * time.Hour)
		}
		w.want(h.Name, "Healthy")
		fall(w, h, 10)
		w.wait(5 * time.Second)
		w.want(h.Name, "Healthy port-flapping")
		_, message := w.View().Report(h.Name, w.now)
		test.StrContains(t, message, "port 1 fell 3 times within 24h, the last time at 09:00 UTC",
			test.Sprintf("%s: message", how))
		w.poll(4*time.Hour - time.Minute)
		w.want(h.Name, "Healthy port-flapping")
		w.poll(3 * time.Minute)
		w.want(h.Name, "Healthy")
		test.SliceEqOp(t, []string{"RDMAPortFlapping", "RDMAPortSteady"}, reasons(w),
			test.Sprintf("%s: transitions are %v", how, w.transitions()))
	}
}

func reasons(w *watched) (out []string) {
	for _, t := range w.all {
		out = append(out, t.Reason())
	}
	return out
}

// TestOneIncident: falls within ten minutes are one, as when a switch starts. A link that falls all the time flaps.
func TestOneIncident(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	w.count(h, 0)
	for n := range uint64(50) {
		w.now = w.now.Add(11 * time.Second)
		w.count(h, n)
	}
	w.poll(25 * time.Hour)
	test.Eq(t, 0, len(w.all), test.Sprintf("transitions of one incident: %v", w.transitions()))
	for n := range uint64(11) {
		w.now = w.now.Add(2 * time.Minute)
		w.count(h, 100+n)
	}
	w.poll(time.Minute)
	w.want(h.Name, "Healthy port-flapping")
}

// TestCountStartsAgain: a driver that is loaded again counts from 0, and a count that cannot be read says nothing.
func TestCountStartsAgain(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	for n := range uint64(10) {
		w.count(h, 9-n)
		w.poll(time.Hour)
		w.obs.Readings = nil
		w.poll(time.Hour)
	}
	w.want(h.Name, "Healthy")
	test.Eq(t, 0, len(w.all), test.Sprintf("transitions: %v", w.transitions()))
}

// TestFallsSurviveARestart: two falls before a restart of the driver and one after it are three.
func TestFallsSurviveARestart(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	if past, changed := w.Past(); changed || len(past) > 0 {
		t.Errorf("a model without a past has %v", past)
	}
	for n := range uint64(3) {
		w.count(h, n)
		w.poll(time.Hour)
	}
	past, changed := w.Past()
	must.True(t, changed && len(past[h.Name].Falls[1]) == 2,
		must.Sprintf("the past is %v, changed %v", past, changed))
	if _, changed := w.Past(); changed {
		t.Error("the past has changed though nothing happened")
	}
	for _, back := range []time.Duration{0, 5 * time.Hour} { // the clock may be set back meanwhile
		next := watch(t)
		next.now = w.now.Add(-back)
		next.Recall(past, next.now)
		next.see(h)
		next.count(h, 70)
		next.poll(time.Hour)
		next.want(h.Name, "Healthy")
		next.count(h, 71)
		next.poll(time.Minute)
		next.want(h.Name, "Healthy port-flapping")
		next.poll(25 * time.Hour)
		next.want(h.Name, "Healthy")
	}
}

// TestFallsOff: a policy without a limit ends the condition.
func TestFallsOff(t *testing.T) {
	w, h := watch(t), hca(1)
	w.see(h)
	for n := range uint64(4) {
		w.count(h, n)
		w.poll(time.Hour)
	}
	w.want(h.Name, "Healthy port-flapping")
	cfg := health.DefaultConfig()
	cfg.Falls = 0
	w.Configure(cfg)
	w.poll(time.Minute)
	w.want(h.Name, "Healthy")
}

// rated is an HCA whose link has a rate.
func rated(n, gbps int) rdma.HCA {
	h := hca(n)
	h.Ports = slices.Clone(h.Ports)
	h.Ports[0].RateMbps = gbps * 1000
	return h
}

// TestSlowByPolicy: a rate below that of the rule counts after two minutes, and not a moment before.
func TestSlowByPolicy(t *testing.T) {
	w := watch(t)
	at, below, above := rated(1, 400), rated(2, 200), rated(3, 800)
	w.obs.Expected = map[string]health.Expected{}
	for _, h := range []rdma.HCA{at, below, above} {
		w.obs.Expected[h.Name] = health.Expected{MinRateMbps: 400_000}
	}
	w.see(at, below, above)
	w.wait(2*time.Minute - time.Second)
	w.want(below.Name, "Healthy")
	w.wait(time.Second)
	w.want(below.Name, "Healthy port-slow")
	w.want(at.Name, "Healthy")
	w.want(above.Name, "Healthy")
	_, message := w.View().Report(below.Name, w.now)
	test.StrContains(t, message, "the rate is 200 Gb/s, and the policy's minRateGbps is 400: look at cable",
		test.Sprint("message"))
	// A port that is down has a rate that means nothing.
	w.see(at, down(below, 1), above)
	w.wait(time.Minute)
	w.want(below.Name, "Unhealthy port-down port-slow")
	w.see(at, rated(2, 400), above)
	w.wait(30 * time.Second)
	w.want(below.Name, "Healthy")
}

// TestSlowMember: a LAG that carries less than its members could is slow, also without a rule.
func TestSlowMember(t *testing.T) {
	w := watch(t)
	w.obs.Expected = map[string]health.Expected{}
	h := rated(1, 100)
	h.Ports[0].Netdev, h.Ports[0].LAG = "bond0", rdma.LAG{ConfiguredMbps: 200_000, Slow: "ens1f1np1"}
	w.see(h)
	w.wait(2 * time.Minute)
	w.want(h.Name, "Healthy port-slow")
	_, message := w.View().Report(h.Name, w.now)
	test.StrContains(t, message,
		"the rate of bond0 is 100 Gb/s instead of 200: no link, or a slower one, on ens1f1np1: is it up (ip link)? Else look")
	h = rated(1, 100)
	h.Ports[0].Netdev, h.Ports[0].LAG = "bond0", rdma.LAG{ConfiguredMbps: 200_000}
	w.see(h)
	w.wait(time.Second)
	_, message = w.View().Report(h.Name, w.now)
	test.StrContains(t, message, "instead of 200: not all members carry traffic: look at LACP")
	for _, gbps := range []int{200, 400} { // 400: PCIe carries 200
		h = rated(1, gbps)
		h.Ports[0].LAG = rdma.LAG{ConfiguredMbps: 200_000}
		w.see(h)
		w.wait(30 * time.Second)
		w.want(h.Name, "Healthy")
	}
}

// TestSlowAmongPeers: one card below all others of a rule with rails is slow, if at least three others are equal.
func TestSlowAmongPeers(t *testing.T) {
	for want, rates := range map[string][]int{
		"":                 {400, 400, 400, 400},
		"1":                {400, 200, 400, 400},
		"0 of many":        {200, 400, 400, 400, 400, 400, 800, 400},
		"(two fabrics)":    {200, 200, 400, 400, 400, 400, 400, 400},
		"(few)":            {400, 400, 200},
		"(no equals)":      {100, 200, 400, 800},
		"(one is unknown)": {0, 400, 400, 400, 400},
		"4 (one is down)":  {400, 400, 0, 400, 100},
	} {
		w := watch(t)
		var hcas []rdma.HCA
		w.obs.Expected = map[string]health.Expected{}
		for i, rate := range rates {
			h := rated(i, rate)
			hcas = append(hcas, h)
			w.obs.Expected[h.Name] = health.Expected{Peers: "compute", Alike: true}
		}
		w.see(hcas...)
		w.wait(time.Hour)
		for i, h := range hcas {
			v, _ := w.View().Verdict(h.Name)
			test.Eq(t, strings.HasPrefix(want, fmt.Sprint(i)), len(v.Faults) > 0,
				test.Sprintf("rates %v: card %d is slow", rates, i))
		}
	}
}

// TestSlowIsNotKnown: without the policy, and while a rule lacks cards, a slow card stays what it was.
func TestSlowIsNotKnown(t *testing.T) {
	w := watch(t)
	hcas := []rdma.HCA{rated(0, 400), rated(1, 200), rated(2, 400), rated(3, 400)}
	w.see(hcas...)
	w.wait(time.Hour)
	w.want(hcas[1].Name, "Healthy")
	alike := map[string]health.Expected{}
	for _, h := range hcas {
		alike[h.Name] = health.Expected{Peers: "compute", Alike: true}
	}
	w.obs.Expected = alike
	w.look()
	w.wait(time.Hour)
	w.want(hcas[1].Name, "Healthy port-slow")

	past, _ := w.Past()
	w.obs.Expected = map[string]health.Expected{}
	for _, h := range hcas {
		w.obs.Expected[h.Name] = health.Expected{Peers: "compute"}
	}
	w.see(hcas[:2]...)
	w.wait(time.Hour)
	w.want(hcas[1].Name, "Healthy port-slow")
	w.obs.Expected = map[string]health.Expected{} // a policy without the rule
	w.look()
	w.wait(time.Hour)
	w.want(hcas[1].Name, "Healthy")

	next := watch(t) // knows the policy a moment after its start
	next.Recall(past, next.now)
	next.see(hcas...)
	next.want(hcas[1].Name, "Healthy port-slow")
	next.wait(time.Minute)
	next.obs.Expected = alike
	next.see(rated(0, 400), rated(1, 400), rated(2, 400), rated(3, 400))
	next.wait(time.Minute)
	next.want(hcas[1].Name, "Healthy")
	test.SliceEqOp(t, []string{"RDMAPortRateRestored"}, reasons(next),
		test.Sprintf("transitions: %v", next.transitions()))
}

// TestUnused: a port that nobody cabled, as the policy says, keeps its taint, and is no alert.
func TestUnused(t *testing.T) {
	for name, want := range map[string]bool{"neither": false, "policy": true, "up": false} {
		w, h := watch(t), dualPort(1)
		if name != "up" {
			h = down(down(h, 1), 2)
		}
		w.obs.Expected = map[string]health.Expected{h.Name: {Unused: name == "policy" || name == "up"}}
		w.see(h)
		w.wait(time.Minute)
		v, _ := w.View().Verdict(h.Name)
		taints := effectsOf(w.View().Taints(raised))[h.Name]
		test.True(t, v.Unused == want && (taints != "rdma.dev/port-down:NoSchedule ") == (name == "up"),
			test.Sprintf("%s: unused is %v, taints are %q", name, v.Unused, taints))
		for _, tr := range w.all {
			test.NotEq(t, want, tr.Grave(), test.Sprintf("%s: the event is a warning", name))
		}
	}
}

// TestPartsHaveNoLink: VFs and SFs have the link of their card, which has the conditions.
func TestPartsHaveNoLink(t *testing.T) {
	w, h := watch(t), rated(1, 10)
	h.Function = rdma.VF
	w.obs.Expected = map[string]health.Expected{h.Name: {MinRateMbps: 400_000}}
	w.see(h)
	for range 20 {
		w.see(down(h, 1))
		w.wait(time.Second)
		w.see(h)
		w.wait(time.Hour)
	}
	w.want(h.Name, "Healthy")
	test.Eq(t, 0, len(w.all), test.Sprintf("transitions: %v", w.transitions()))
}

// TestErrorsAroundAFall: the errors with which a link ends and begins are none of a cable. What comes later is.
func TestErrorsAroundAFall(t *testing.T) {
	w, h := watch(t), hca(1)
	read := func(symbols uint64) {
		w.obs.Readings = map[health.PortID]health.Reading{
			{Device: h.Name, Port: 1}: {Counters: map[string]uint64{"symbol_error": symbols}}}
		w.look()
	}
	w.see(h)
	read(0)
	w.see(down(h, 1))
	read(50_000)
	w.poll(time.Hour)
	w.see(h)
	w.wait(30 * time.Second)
	read(60_000)
	w.poll(10 * time.Minute)
	w.want(h.Name, "Healthy")
	read(60_200)
	w.wait(10 * time.Second)
	w.want(h.Name, "Healthy port-errors")
}

// TestTenant: what a pod does to an interface that it has, and the move itself, make no card sick, and clear nothing. A
// move there and back adds two to carrier_down_count (dev_change_net_namespace closes the interface).
func TestTenant(t *testing.T) {
	w, h := watch(t), rated(1, 400)
	h.Protocol, h.Ports = rdma.ProtocolRoCE, slices.Clone(h.Ports)
	h.Ports[0].LinkLayer, h.Ports[0].Netdev = rdma.LinkEthernet, "ens1"
	inPod := h
	inPod.Ports = slices.Clone(h.Ports)
	inPod.Ports[0].Netdev, inPod.Ports[0].RateMbps = "", 10_000
	w.obs.Expected = map[string]health.Expected{h.Name: {MinRateMbps: 400_000}}
	read := func(r health.Reading) {
		w.obs.Readings = map[health.PortID]health.Reading{{Device: h.Name, Port: 1}: r}
		w.poll(time.Minute)
	}
	falls, blocks, moves, routable := uint64(7), uint64(0), uint64(0), true
	atHome := func() {
		w.see(h)
		read(health.Reading{Falls: new(falls), Moves: moves, RoutableGID: &routable, Counters: map[string]uint64{health.FECUncorrectable: blocks}})
	}
	symbols := uint64(0)
	pod := func() { // for a day: the link falls each quarter of an hour, at a lower rate, without addresses
		for range 96 {
			for _, is := range []rdma.HCA{inPod, down(inPod, 1), inPod} {
				w.see(is)
				read(health.Reading{RoutableGID: new(bool), Counters: map[string]uint64{"symbol_error": symbols}})
				w.poll(4 * time.Minute)
			}
			falls, blocks, moves = falls+2, blocks+50_000, moves+2
		}
	}
	atHome()
	for range 3 {
		pod()
		w.see(inPod)
		w.wait(time.Hour)
		w.want(h.Name, "Healthy")
		atHome()
	}
	for range 3 { // there and back between two readings
		falls, blocks, moves = falls+2, blocks+50_000, moves+2
		atHome()
		w.poll(time.Hour)
	}
	w.want(h.Name, "Healthy")
	blocks += 50_000
	atHome()
	w.want(h.Name, "Healthy port-errors")
	pod()
	w.want(h.Name, "Healthy port-errors") // held
	symbols += 50_000
	inPod.Ports[0].RateMbps = 400_000
	pod()
	w.see(inPod)
	w.wait(time.Hour)
	atHome()
	w.want(h.Name, "Healthy port-errors")
	for range 3 { // what the host's own link does counts
		falls++
		atHome()
		w.poll(time.Hour)
	}
	w.want(h.Name, "Healthy port-flapping")
}

// TestPowerCut: all links of a node fall when their switches lose power, come back several times while these start, at
// any rate meanwhile, and stay. Nothing is left but that they were down.
func TestPowerCut(t *testing.T) {
	w := watch(t)
	w.obs.Expected = map[string]health.Expected{}
	var up, dark, starting []rdma.HCA
	for i := range 8 {
		h := rated(i, 400)
		w.obs.Expected[h.Name] = health.Expected{Peers: "compute", Alike: true, MinRateMbps: 400_000}
		up, dark, starting = append(up, h), append(dark, down(h, 1)), append(starting, rated(i, 100))
	}
	lost := uint64(0) // blocks, since the host has started
	count := func() {
		lost += 100_000
		for _, h := range up {
			w.obs.Readings[health.PortID{Device: h.Name, Port: 1}] = health.Reading{
				Counters: map[string]uint64{health.FECUncorrectable: lost, health.PHYSymbolErrors: 50 * lost}}
		}
	}
	w.obs.Readings, w.obs.Firmware = map[health.PortID]health.Reading{}, map[string][]health.Reporter{}
	for _, h := range up {
		w.obs.Firmware[h.Name] = []health.Reporter{{Name: "fw"}}
	}
	count()
	for range 2 { // a power cut a week after another one
		w.see(up...)
		w.poll(7 * 24 * time.Hour)
		count()
		w.see(dark...)
		w.poll(3 * time.Minute)
		for range 5 {
			count()
			w.see(starting...)
			w.wait(40 * time.Second)
			w.see(dark...)
			w.wait(40 * time.Second)
		}
	}
	w.see(up...)
	w.poll(24 * time.Hour)
	for _, tr := range w.all {
		test.Eq(t, health.PortDown, tr.Condition, test.Sprintf("a power cut shows %s", tr.Reason()))
	}
	for _, h := range up {
		w.want(h.Name, "Healthy")
	}
	test.Eq(t, map[string][]resourceapi.DeviceTaint{}, w.View().Taints(health.Policy{Informational: true}),
		test.Sprint("taints"))
}
