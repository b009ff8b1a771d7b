package pods

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/nriruntime"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// follower moves HCAs, and has a runtime that announces pods.
type follower struct {
	*served
	runtime *nriruntime.Runtime
	metrics *metrics.Instruments
	made    int               // claims
	renewed map[types.UID]int // the number of the device's node in the spec of a claim
	stop    func()
}

func following(t *testing.T) *follower {
	t.Helper()
	w := &follower{runtime: nriruntime.New(t), metrics: metrics.New(), renewed: map[types.UID]int{}}
	w.runtime.Up()
	w.served = serve(t, "exclusive-netns", exclusive, func(s *served) {
		s.config = func(c *Config) { c.NRISocket, c.Metrics = w.runtime.Socket, w.metrics }
		s.renew = func(plans []*plan.Plan) {
			for _, p := range plans {
				s.prepared.mu.Lock()
				w.renewed[p.UID] = s.mover.Moves()
				s.prepared.mu.Unlock()
			}
		}
	})
	w.stop = w.connects(t)
	return w
}

// claim prepares a claim for a pod of its own.
func (w *follower) claim() (nri.Pod, *resourceapi.ResourceClaim) {
	w.t.Helper()
	w.made++
	pod := podNamed(fmt.Sprintf("pod-%d", w.made))
	c := claimOf(w.made, pod, onlyHCA)
	w.prepares(w.t, c)
	return pod, c
}

// in waits until a pod has the device, and the spec of its claim the device's node.
func (w *follower) in(pod nri.Pod, c *resourceapi.ResourceClaim) {
	w.t.Helper()
	drivertest.Eventually(w.t, func() error {
		w.prepared.mu.Lock()
		defer w.prepared.mu.Unlock()
		if where, number := w.mover.At(); where != pod.Netns || number != w.renewed[c.UID] {
			return fmt.Errorf("the device is in %q with uverbs%d, want %q, and the spec has uverbs%d",
				where, number, pod.Netns, w.renewed[c.UID])
		}
		return nil
	})
}

// gone ends a pod and its claim, whatever the driver was told of the end. Then the kernel and the driver agree that
// the device is on the host.
func (w *follower) gone(pod nri.Pod, c *resourceapi.ResourceClaim) {
	w.t.Helper()
	w.runtime.Forget(pod)
	w.mover.End(pod.Netns)
	w.unprepares(c)
	w.mover.IsIn("")
}

// TestConnectionLost: the connection to the runtime is lost after each message of a pod's start, of its end, and of its
// removal. The runtime goes on; the driver comes back and makes up for it. After each pod the device is on the host.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	w := following(t)
	steps := map[string]func(nri.Pod) error{
		"run":    func(p nri.Pod) error { return w.runtime.Run(w.ctx, p) },
		"stop":   func(p nri.Pod) error { return w.runtime.Stop(w.ctx, p) },
		"remove": func(p nri.Pod) error { return w.runtime.Remove(w.ctx, p) },
	}
	order := []string{"run", "stop", "remove"}
	for _, lost := range order {
		for n, cut := 0, true; cut; n++ {
			pod, c := w.claim()
			for _, step := range order {
				if step == lost {
					w.runtime.CutAfter(n)
				}
				must.NoError(t, steps[step](pod), must.Sprintf("%s, cut after %d messages of %s", step, n, lost))
				if step == lost {
					cut = w.runtime.WasCut()
				}
				if step == "run" {
					w.in(pod, c)
				}
				w.connected()
			}
			w.gone(pod, c)
			must.LessEq(t, 20, n, must.Sprintf("%s takes more than %d messages", lost, n))
		}
	}
	t.Logf("%d pods", w.made)
}

// TestRestarts: what restarts while a pod has the device leaves it there, and what happens to the pod meanwhile is made
// up for.
func TestRestarts(t *testing.T) {
	t.Parallel()
	w := following(t)
	run := func(pod nri.Pod) {
		t.Helper()
		must.NoError(t, w.runtime.Run(w.ctx, pod))
	}
	restart := map[string]func(meanwhile func()){
		"runtime": func(meanwhile func()) { w.runtime.Down(); meanwhile(); w.runtime.Up(); w.connected() },
		"driver":  func(meanwhile func()) { w.stop(); meanwhile(); w.restart(); w.stop = w.connects(w.t) },
	}
	for what, do := range restart {
		t.Run(what, func(t *testing.T) {
			pod, c := w.claim()
			run(pod)
			moves := w.mover.Moves()
			do(func() {})
			w.in(pod, c)
			test.Eq(t, moves, w.mover.Moves(), test.Sprint("the moves of the device"))
			do(func() { w.runtime.Forget(pod); w.mover.End(pod.Netns) }) // its namespace ends
			w.gone(pod, c)

			pod, c = w.claim()
			do(func() { run(pod) }) // nobody is told of its start
			w.in(pod, c)
			must.NoError(t, w.runtime.Stop(w.ctx, pod))
			w.gone(pod, c)

			pod, c = w.claim()
			run(pod)
			again := pod
			again.Netns += "-again"
			do(func() { w.mover.End(pod.Netns); run(again) }) // a new sandbox
			w.in(again, c)
			w.gone(again, c)
		})
	}
}

// TestEndsInAnyOrder: a claim that is gone before its pod's sandbox, and a namespace that is.
func TestEndsInAnyOrder(t *testing.T) {
	w := following(t)
	for name, end := range map[string]func(nri.Pod, *resourceapi.ResourceClaim){
		"claim first":     func(_ nri.Pod, c *resourceapi.ResourceClaim) { w.unprepares(c) }, // the pod was deleted by force
		"namespace first": func(p nri.Pod, _ *resourceapi.ResourceClaim) { w.mover.End(p.Netns) },
	} {
		pod, c := w.claim()
		must.NoError(t, w.runtime.Run(w.ctx, pod), must.Sprint(name))
		end(pod, c)
		test.NoError(t, w.runtime.Stop(w.ctx, pod), test.Sprint(name))
		test.NoError(t, w.runtime.Remove(w.ctx, pod), test.Sprint(name))
		w.gone(pod, c)
	}
}

// TestTroubleOfNRI: whoever asks how the driver does hears of NRI, and of moves.
func TestTroubleOfNRI(t *testing.T) {
	w := following(t)
	pod, c := w.claim()
	w.mover.Fail(errors.New("the kernel is busy"))
	test.Error(t, w.runtime.Run(w.ctx, pod), test.Sprint("the move failed, and the pod runs"))
	w.says(t, pod, event.MoveFailed, c.Name)
	test.NoError(t, w.runtime.Run(w.ctx, pod))
	test.NoError(t, w.runtime.Stop(w.ctx, pod))
	w.runtime.Down()
	eventually(t, "the driver is not connected", func() bool { return !*w.Connected() && w.Trouble() != nil })
	test.ErrorContains(t, w.Trouble(), "pods with claims do not start")
	eventually(t, "all is noted", func() bool {
		notes := strings.Join(w.Notes(), "\n")
		return !notIn(notes)("NRIConnected") && !notIn(notes)("MovedIn team-a/pod-1") &&
			!notIn(notes)("MovedOut team-a/pod-1") && !notIn(notes)("NRIDisconnected")
	})
	for metric, want := range map[string]float64{
		`rdma_driver_move_duration_seconds{in}`: 1, `rdma_driver_move_duration_seconds{out}`: 1,
		`rdma_driver_move_errors_total{in}`: 1, `rdma_driver_move_errors_total{out}`: 0,
	} {
		test.EqOp(t, want, gathered(t, w.metrics)[metric], test.Sprint(metric))
	}
}

// gathered are the values of counters, and the counts of histograms, by the metric's name and its labels' values.
func gathered(t *testing.T, i *metrics.Instruments) map[string]float64 {
	t.Helper()
	families, err := i.Registry().Gather()
	must.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			out[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// TestTriedAgain: a pod that started while the driver was not connected gets its device, though the first try fails.
// The runtime tells of it once. A pod that ends meanwhile is left alone.
func TestTriedAgain(t *testing.T) {
	t.Parallel()
	w := following(t)
	for name, ends := range map[string]bool{"runs": false, "ends": true} {
		pod, c := w.claim()
		w.runtime.Down()
		must.NoError(t, w.runtime.Run(w.ctx, pod))
		w.mover.Fail(fmt.Errorf("the kernel is busy: the pod %s", name))
		w.runtime.Up()
		eventually(t, "the log has the failed try", func() bool {
			return !notIn(w.log.String())("the kernel is busy: the pod " + name)
		})
		if ends {
			w.Stopped(w.ctx, pod)
			test.SliceEmpty(t, w.Pending(), test.Sprint("pending"))
		} else {
			w.in(pod, c)
		}
		w.connected()
		w.gone(pod, c)
	}
}

// TestMemlockOfSandbox: the runtime is told the limit that the hook has, and never a lower one than there is.
func TestMemlockOfSandbox(t *testing.T) {
	hook := func(args ...string) []string {
		return append([]string{"/opt/rdma.dev/bin/rdma-hook-v1", "rdma-hook"}, args...)
	}
	limit := func(n uint64) *uint64 { return &n }
	for name, c := range map[string]struct {
		container nri.Container
		want      *uint64
	}{
		"no hook":         {nri.Container{}, nil},
		"somebody's hook": {nri.Container{Hooks: [][]string{{"/usr/bin/other", "other", "--memlock", "1Gi"}}}, nil},
		"unlimited":       {nri.Container{Hooks: [][]string{hook("--memlock", "unlimited")}}, limit(nri.Unlimited)},
		"the higher one": {
			nri.Container{Hooks: [][]string{hook("--memlock", "1Gi"), hook("--memlock", "4Gi")}}, limit(4 << 30),
		},
		"inherit":         {nri.Container{Hooks: [][]string{hook("--limit", "mlx5_0:handles=1")}}, nil},
		"already as high": {nri.Container{Hooks: [][]string{hook("--memlock", "1Gi")}, Memlock: limit(1 << 30)}, nil},
		"less than wanted": {
			nri.Container{Hooks: [][]string{hook("--memlock", "1Gi")}, Memlock: limit(64 << 10)}, limit(1 << 30),
		},
		"not understood": {nri.Container{Hooks: [][]string{hook("--memlock", "much")}}, nil},
	} {
		got := New(Config{}).Adjust(t.Context(), nri.Pod{}, c.container).Memlock
		test.True(t, (got == nil) == (c.want == nil) && (got == nil || *got == *c.want),
			test.Sprintf("%s: %v, want %v", name, got, c.want))
	}
}
