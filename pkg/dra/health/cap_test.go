package health_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// raised is a policy that raises what informs by default.
var raised = health.Policy{Informational: true, Effects: map[health.Condition]resourceapi.DeviceTaintEffect{
	health.PortSlow: "NoExecute", health.PortFlapping: "NoExecute", health.PortErrors: "NoSchedule",
	health.Firmware: "NoSchedule",
}}

// effectsOf returns the effects of each device with taints, in the order of keys.
func effectsOf(taints map[string][]resourceapi.DeviceTaint) map[string]string {
	out := map[string]string{}
	for device, list := range taints {
		for _, one := range list {
			out[device] += fmt.Sprintf("%s:%s ", one.Key, one.Effect)
		}
	}
	return out
}

// TestOneCardAtATime: the effects of the policy hold for the card that is sick the longest, both of its functions, and
// pass on to the next one when it is well. Other conditions are not bounded.
func TestOneCardAtATime(t *testing.T) {
	sick := func(device, card string, c health.Condition, hour int) health.Verdict {
		return health.Verdict{Device: device, Card: card, Faults: []health.Fault{
			{Condition: c, Since: epoch.Add(time.Duration(hour) * time.Hour), Confirmed: true}}}
	}
	first, second := sick("a0", "a", health.PortSlow, 2), sick("a1", "a", health.PortFlapping, 5)
	other, down := sick("b0", "b", health.PortSlow, 3), sick("c0", "c", health.PortDown, 1)
	view := health.ViewOf(first, second, other, down)
	want := map[string]string{
		"a0": "rdma.dev/port-slow:NoExecute ", "a1": "rdma.dev/port-flapping:NoSchedule ", // a counter never evicts
		"b0": "rdma.dev/port-slow:None ", "c0": "rdma.dev/port-down:NoSchedule ",
	}
	test.Eq(t, want, effectsOf(view.Taints(raised)), test.Sprint("taints"))
	devices, card := view.HeldBack(raised)
	diff := cmp.Diff([]string{"b0 (port-slow)"}, devices)
	test.True(t, diff == "" && card == "a", test.Sprintf("held back beside %s (-want +got):\n%s", card, diff))
	old := raised
	old.Informational = false
	test.Eq(t, "", effectsOf(view.Taints(old))["b0"],
		test.Sprint("before Kubernetes 1.36 the taint that is held back"))
	view = health.ViewOf(other, down)
	test.Eq(t, "rdma.dev/port-slow:NoExecute ", effectsOf(view.Taints(raised))["b0"], test.Sprint("the next card"))
	if devices, _ := view.HeldBack(raised); devices != nil {
		t.Errorf("held back are still %v", devices)
	}
	test.Eq(t, "rdma.dev/port-slow:None ", effectsOf(view.Taints(health.Policy{Informational: true}))["b0"],
		test.Sprint("without a policy the taint"))
}

// TestLongestSickStays: a restart of the driver does not move the effect to another card.
func TestLongestSickStays(t *testing.T) {
	w, first, second := watch(t), rated(9, 100), rated(1, 400)
	w.obs.Expected = map[string]health.Expected{
		first.Name: {MinRateMbps: 400_000}, second.Name: {MinRateMbps: 400_000}}
	w.see(first, second)
	w.poll(time.Hour)
	second = rated(1, 100)
	w.see(first, second)
	w.poll(time.Hour)
	before := w.View().Taints(raised)
	must.Eq(t, "rdma.dev/port-slow:None ", effectsOf(before)[second.Name], must.Sprint("the second card"))
	past, _ := w.Past()
	next := watch(t)
	next.now = w.now
	next.Recall(past, next.now)
	next.see(first, second)
	for range 2 {
		test.Eq(t, effectsOf(before), effectsOf(next.View().Taints(raised)), test.Sprint("taints after a restart"))
		next.obs.Expected = w.obs.Expected
		next.poll(time.Hour)
	}
}

// TestStrongest: what does not fit is the weakest.
func TestStrongest(t *testing.T) {
	taint := func(c health.Condition, effect resourceapi.DeviceTaintEffect) resourceapi.DeviceTaint {
		return resourceapi.DeviceTaint{Key: c.Key(), Effect: effect}
	}
	all := []resourceapi.DeviceTaint{
		{Key: "rdma.dev/draining", Effect: "NoSchedule"}, taint(health.NoAddress, "NoExecute"), taint(health.NoGUID, "NoSchedule"),
		taint(health.PortDown, "NoSchedule"), taint(health.PortErrors, "NoSchedule"), taint(health.PortSlow, "None"),
	}
	test.Eq(t, all, health.Strongest(all, 6), test.Sprint("of all"))
	test.Eq(t, all[:4], health.Strongest(all, 4), test.Sprint("of four"))
	test.Eq(t, all[:2], health.Strongest(all, 2), test.Sprint("of two"))
}
