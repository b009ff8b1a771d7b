package dra_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// loaded is a node whose HCAs all have a claim, with a driver whose turns come by the clock of the test.
type loaded struct {
	*driver
	clock   *clocktesting.FakeClock
	signals chan watch.Signal
	names   []string // of the HCAs, in the order of their ibdevs
	claims  []*resourceapi.ResourceClaim
	reports string         // where hooks leave theirs
	policy  *policy.Config // nil for the default
	asked   map[string]int // requests before that do not count
}

// load starts a driver and prepares a claim for each HCA, with a pod that the kubelet lists. Other pods may share a
// claim, or it was made from a template for the pod. A nil policy is the default.
func load(t *testing.T, template bool, site *policy.Config) *loaded {
	t.Helper()
	n := drivertest.NewNode(t, "hgx-h100")
	l := &loaded{signals: make(chan watch.Signal), reports: t.TempDir(), policy: site}
	l.run(t, n)
	drivertest.Eventually(t, func() error { return drivertest.Published(n) })
	l.names = drivertest.DeviceNames(n.Slices())
	must.Eq(t, 9, len(l.names), must.Sprintf("the node has %v", l.names))
	for i, name := range l.names {
		pod := nri.Pod{Name: fmt.Sprintf("pod-%d", i), UID: fmt.Sprintf("uid-pod-%d", i)}
		c := drivertest.UsedBy(drivertest.Claim(i, name), pod.Name)
		if template {
			ofPod(c, pod)
		}
		n.AddPod(pod.Name, c)
		n.AddClaim(c)
		prepare(t, n, c)
		l.until(func() error {
			if len(n.DeviceStatus(c)) == 0 {
				return fmt.Errorf("claim %s has no status", c.Name)
			}
			return nil
		})
		l.claims = append(l.claims, c)
	}
	l.clock.Step(time.Hour) // what is left of the budget does not depend on what was
	l.asked = n.Requests()
	return l
}

// run starts the driver, or the next one.
func (l *loaded) run(t *testing.T, n *drivertest.Node) {
	t.Helper()
	cfg := config(n)
	for _, o := range []func(*dra.Config){quick, withEvents, withStatus} {
		o(&cfg)
	}
	cfg.Hook.ReportDir, cfg.Policy = l.reports, l.policy
	l.clock = clocktesting.NewFakeClock(time.Now())
	cfg.Spend(budget.Default(), l.clock)
	cfg.SetEvents(l.signals)
	driven, err := dra.New(cfg, n.Client(t))
	must.NoError(t, err)
	l.driver = run(t, n, driven)
}

// until lets time pass for what waits for its turn until a condition holds.
func (l *loaded) until(condition func() error) {
	l.t.Helper()
	drivertest.Eventually(l.t, func() error {
		err := condition()
		if err != nil {
			l.clock.Step(budget.Default().Spacing)
		}
		return err
	})
}

// untilSent lets time pass until so many events were sent, and so many writes of the status of claims.
func (l *loaded) untilSent(events, statuses int) {
	l.t.Helper()
	l.until(func() error {
		if got := l.sent(); got[drivertest.CreateEvent] < events || got[drivertest.ApplyStatus] < statuses {
			return fmt.Errorf("%v were sent, want %d events and %d statuses", got, events, statuses)
		}
		return nil
	})
}

// sent returns the requests that count, by kind. The list of each half a minute of the real clock does not.
func (l *loaded) sent() map[string]int {
	out := map[string]int{}
	for request, count := range l.node.Requests() {
		if count > l.asked[request] {
			out[request] = count - l.asked[request]
		}
	}
	delete(out, drivertest.ListSlices)
	return out
}

// sends waits until these are all requests but those for slices.
func (l *loaded) sends(want map[string]int) {
	l.t.Helper()
	drivertest.Eventually(l.t, func() error {
		got := l.sent()
		delete(got, drivertest.UpdateSlice)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("requests (-want +got):\n%s", diff)
		}
		return nil
	})
}

// atOnce returns the requests that wait for no turn. It has one more event sent at once, before which all others
// arrive.
func (l *loaded) atOnce() map[string]int {
	l.t.Helper()
	c := drivertest.WithParameters(drivertest.Claim(100+len(l.node.Events()), l.names[0]), `"memlok": "1Gi"`)
	l.node.AddClaim(c)
	refused(l.t, l.node, c, "memlok")
	drivertest.Eventually(l.t, func() error {
		if !slices.ContainsFunc(l.node.Events(), func(e corev1.Event) bool { return e.InvolvedObject.Name == c.Name }) {
			return fmt.Errorf("claim %s has no event", c.Name)
		}
		return nil
	})
	got := l.sent()
	for _, request := range []string{drivertest.GetClaim, drivertest.CreateEvent} {
		l.asked[request]++
		if got[request]--; got[request] == 0 {
			delete(got, request)
		}
	}
	return got
}

// inTurns lets a minute pass in steps of a second, and checks that no more is sent than there are turns, besides what
// was sent before.
func (l *loaded) inTurns() {
	l.t.Helper()
	for second := 1; second <= 60; second++ {
		l.clock.Step(time.Second)
		most, total := second/3+2, 0 // a turn before may be over by now
		for request, count := range l.sent() {
			if slices.Contains([]string{drivertest.GetClaim, drivertest.CreateEvent, drivertest.ApplyStatus}, request) {
				total += count
			}
		}
		test.LessEq(l.t, most, total, test.Sprintf("%d requests after %d s, want at most %d", total, second, most))
	}
}

// fail takes all links down.
func (l *loaded) fail() {
	l.t.Helper()
	for i := range l.names {
		portDown(l.t, l.node, fmt.Sprintf("mlx5_%d", i))
	}
	l.signals <- watch.Signal{Changes: rdma.Changes{All: true}}
	for _, name := range l.names {
		drivertest.WaitTaints(l.t, l.node, name, "rdma.dev/port-down:NoSchedule")
	}
}

// TestLoadOfAllLinks: when all links of a node fail, its slices are written at once, and all else waits for its turn:
// one event on the node, one on each claim and one on each pod, a GET for each claim whose pods only the API server
// knows, and one write of the status of each claim.
func TestLoadOfAllLinks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		template bool
		gets     int
	}{{"claims that pods may share", false, 9}, {"claims of one pod each", true, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			l := load(t, tc.template, nil)
			l.fail()
			at := l.atOnce()
			test.True(t, at[drivertest.UpdateSlice] <= 2 && len(at) == 1,
				test.Sprintf("at once there are %v, want one or two writes of a slice", at))
			l.inTurns()
			l.untilSent(1+9+9, 9)
			want := map[string]int{drivertest.CreateEvent: 1 + 9 + 9, drivertest.ApplyStatus: 9}
			if tc.gets > 0 {
				want[drivertest.GetClaim] = tc.gets
			}
			l.sends(want)
			l.namesAll()
		})
	}
}

// namesAll checks that the event of the node says what failed.
func (l *loaded) namesAll() {
	l.t.Helper()
	got := l.node.EventMessage(l.t, "Node", "RDMAPortDown")
	test.StrHasPrefix(l.t, "9 RDMA devices: ", got, test.Sprint("the node"))
	for i, name := range l.names {
		test.StrContains(l.t, got, fmt.Sprintf("%s (mlx5_%d)", name, i), test.Sprint(name))
	}
}

// TestLoadOfOneLink: the events of a link that fails alone wait for nothing, and neither do those of the next. The
// status of the claims waits for its turn, and takes nothing from the events.
func TestLoadOfOneLink(t *testing.T) {
	t.Parallel()
	l := load(t, false, nil)
	for i := range 2 {
		portDown(t, l.node, fmt.Sprintf("mlx5_%d", i))
		l.signals <- of(fmt.Sprintf("mlx5_%d", i))
		drivertest.WaitTaints(t, l.node, l.names[i], "rdma.dev/port-down:NoSchedule")
		l.sends(map[string]int{drivertest.GetClaim: i + 1, drivertest.CreateEvent: 3 * (i + 1)})
	}
	l.untilSent(2*3, 2)
	l.sends(map[string]int{drivertest.GetClaim: 2, drivertest.CreateEvent: 2 * 3, drivertest.ApplyStatus: 2})
}

// TestLoadOfOnePod: a pod that has all HCAs of its node has one event of all of them.
func TestLoadOfOnePod(t *testing.T) {
	t.Parallel()
	l := load(t, false, nil)
	for _, c := range l.claims {
		reserve(l.node, c, nri.Pod{Name: "pod", UID: "uid-pod"})
	}
	l.fail()
	l.untilSent(1+9+1, 9)
	test.StrHasPrefix(t, "9 RDMA devices: ", l.node.EventMessage(t, "Pod", "RDMAPortDown"), test.Sprint("the pod"))
	l.sends(map[string]int{drivertest.GetClaim: 9, drivertest.CreateEvent: 1 + 9 + 1, drivertest.ApplyStatus: 9})
}

// TestLoadOfPods: what is told of pods that start waits for no turn, however fast they start: the status of their
// claims, and what their containers lack.
func TestLoadOfPods(t *testing.T) {
	t.Parallel()
	l := load(t, false, nil)
	for round := range 3 {
		for i, before := range l.claims {
			unprepare(t, l.node, before)
			pod := fmt.Sprintf("pod-%d-%d", round, i)
			c := drivertest.UsedBy(drivertest.Claim(100+10*round+i, l.names[i]), pod)
			l.node.AddPod(pod, c)
			l.node.AddClaim(c)
			prepare(t, l.node, c)
			l.claims[i] = c
			leaveReport(t, l.reports, c, func(r *record.Report) {
				r.ID, r.PodUID, r.Outcome, r.Message = pod, "uid-"+pod, record.Clamped, "need CAP_SYS_RESOURCE"
				r.Limits = []record.DeviceLimit{{Device: "mlx5_0", Outcome: record.Unenforced, Message: "no controller"}}
			})
		}
		drivertest.Eventually(t, func() error {
			told := map[string]int{}
			for _, e := range l.node.Events() {
				told[e.InvolvedObject.Name]++
			}
			for i, c := range l.claims {
				pod := fmt.Sprintf("pod-%d-%d", round, i)
				if len(l.node.DeviceStatus(c)) == 0 {
					return fmt.Errorf("claim %s has no status", c.Name)
				}
				if told[c.Name] != 2 || told[pod] != 2 {
					return fmt.Errorf("claim %s has %d events, pod %s has %d, want 2", c.Name, told[c.Name], pod, told[pod])
				}
			}
			return nil
		})
	}
}

// TestLoadOfSweep: the sweep of orphans asks the API server for nothing that the kubelet lists, and for the rest in
// turns.
func TestLoadOfSweep(t *testing.T) {
	l := load(t, false, nil)
	lists := l.node.PodLists()
	sweep := func() {
		t.Helper()
		drivertest.Eventually(t, func() error {
			if l.node.PodLists() == lists {
				l.clock.Step(12 * time.Minute)
				return fmt.Errorf("the kubelet was not asked")
			}
			return nil
		})
		lists = l.node.PodLists()
	}
	sweep()
	got := l.atOnce()
	test.MapLen(t, 0, got, test.Sprintf("for claims that the kubelet lists there are %v", got))
	l.node.SetPods(nil)
	sweep()
	l.inTurns()
	l.until(func() error {
		if got := l.sent()[drivertest.GetClaim]; got < 9 {
			return fmt.Errorf("%d claims were looked for", got)
		}
		return nil
	})
	l.sends(map[string]int{drivertest.GetClaim: 9})
}

// TestLoadOfStart: a driver that starts gets its node, watches its slices, and looks at the status of claims in turns.
// It writes no slice. A kubelet that restarts is a write of each slice. A connection that breaks is another watch, or
// two: client-go first goes on from where it was, unless the watch was shorter than a second.
func TestLoadOfStart(t *testing.T) {
	t.Parallel()
	l := load(t, false, nil)
	l.stop()
	l.asked = l.node.Requests()
	l.run(t, l.node)
	most := func(want map[string]int) {
		t.Helper()
		got := l.atOnce()
		for request, count := range got {
			test.LessEq(t, want[request], count, test.Sprintf("at once there are %v, want at most %v", got, want))
		}
	}
	watched := func() {
		t.Helper()
		drivertest.Eventually(t, func() error {
			if l.sent()[drivertest.WatchSlices] == 0 {
				return fmt.Errorf("the driver does not watch")
			}
			return nil
		})
	}
	watched()
	most(map[string]int{drivertest.GetNode: 2, drivertest.WatchSlices: 1, drivertest.DryRun: 1})
	l.inTurns()
	l.until(func() error {
		if got := l.sent()[drivertest.GetClaim]; got < 9 {
			return fmt.Errorf("%d claims were looked at", got)
		}
		return nil
	})
	got := l.sent()
	test.True(t, got[drivertest.GetClaim] == 9 && got[drivertest.ApplyStatus] == 0,
		test.Sprintf("the status of 9 claims, which is as it should be, took %v", got))
	drivertest.Eventually(t, func() error {
		if open := l.node.Open(); open > 0 { // a request whose connection is cut is sent again
			return fmt.Errorf("%d requests have no answer", open)
		}
		return nil
	})
	l.asked = l.node.Requests()
	l.node.Cut()
	watched()
	most(map[string]int{drivertest.WatchSlices: 2})
	l.node.WipeSlices()
	drivertest.WaitPublished(t, l.node)
	most(map[string]int{drivertest.WatchSlices: 2, drivertest.GetNode: 1, drivertest.CreateSlice: 1})
}

// TestLoadOfHardware: when all HCAs of a node go at once, as when their kernel driver is unloaded, the status of
// their claims is written in turns. That of one claim waits for nothing.
func TestLoadOfHardware(t *testing.T) {
	t.Parallel()
	// With the effect NoExecute, a taint says whether the driver looks once more soon: in the midst of the next change it
	// would find one HCA gone before the others.
	evicting, err := policy.Parse([]byte("apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n" +
		"taints: {driver-unbound: NoExecute}\n"))
	must.NoError(t, err)
	l := load(t, false, evicting)
	l.node.Become(t, drivertest.Without(t, "hgx-h100", "mlx5_0", "uverbs0", "umad0", "issm0"))
	l.signals <- watch.Signal{Changes: rdma.Changes{All: true}}
	drivertest.WaitTaints(t, l.node, l.names[0], "rdma.dev/driver-unbound:NoExecute")
	l.sends(map[string]int{drivertest.ApplyStatus: 1, drivertest.GetClaim: 1, drivertest.CreateEvent: 3})
	l.clock.Step(time.Hour)
	l.asked = l.node.Requests()
	l.node.Become(t, drivertest.Without(t, "hgx-h100", "mlx5_", "uverbs", "umad", "issm"))
	l.signals <- watch.Signal{Changes: rdma.Changes{All: true}}
	drivertest.WaitTaints(t, l.node, l.names[8], "rdma.dev/driver-unbound:NoExecute")
	got := l.atOnce()
	test.Eq(t, 0, got[drivertest.ApplyStatus]+got[drivertest.GetClaim]+got[drivertest.CreateEvent],
		test.Sprintf("at once there are %v", got))
	l.inTurns()
	want := map[string]int{drivertest.ApplyStatus: 8, drivertest.GetClaim: 8, drivertest.CreateEvent: 1 + 8 + 8}
	l.until(func() error {
		if got := l.sent(); got[drivertest.ApplyStatus] < 8 || got[drivertest.CreateEvent] < 1+8+8 {
			return fmt.Errorf("requests %v", got)
		}
		return nil
	})
	l.sends(want)
}
