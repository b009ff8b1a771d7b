package dra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/nriruntime"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
)

// follower is a driver that moves devices, and a runtime that tells it of pods.
type follower struct {
	*testing.T
	*drivertest.Node
	kernel  *kernel
	runtime *nriruntime.Runtime
	driver  *driver
	metrics *metrics.Instruments // of the driver
	claims  int
}

func following(t *testing.T) *follower {
	t.Helper()
	n := drivertest.NewNode(t, "exclusive-netns")
	w := &follower{T: t, Node: n, kernel: &kernel{t: t, host: n}, runtime: nriruntime.New(t)}
	w.runtime.Up()
	w.start()
	waitTaints(t, n, onlyHCA, "")
	return w
}

func (w *follower) start() {
	w.Helper()
	w.metrics = metrics.New()
	w.driver = startHearing(w.T, w.Node, make(chan watch.Signal), w.kernel.moving, quick, func(c *dra.Config) {
		c.NRISocket, c.Metrics = w.runtime.Socket, w.metrics
	})
	w.connected()
}

// connected waits until the runtime has the driver's plugin, as the driver's status says.
func (w *follower) connected() {
	w.Helper()
	drivertest.Eventually(w.T, func() error {
		if p := w.driver.Status(w.Context()); p.NRI != "connected" || len(p.Problems) > 0 {
			return fmt.Errorf("NRI is %q, problems %q", p.NRI, p.Problems)
		}
		return nil
	})
}

// claim prepares a claim for a pod of its own.
func (w *follower) claim() (nri.Pod, *resourceapi.ResourceClaim) {
	w.Helper()
	w.claims++
	pod := podNamed(fmt.Sprintf("pod-%d", w.claims))
	c := reservedOn(w.Node, w.claims, pod)
	prepare(w.T, w.Node, c)
	return pod, c
}

// in waits until a pod has the device, and the spec of its claim the device's node.
func (w *follower) in(pod nri.Pod, c *resourceapi.ResourceClaim) {
	w.Helper()
	drivertest.Eventually(w.T, func() error {
		where, number := w.kernel.at()
		if where != pod.Netns {
			return fmt.Errorf("the device is in %q, want %q", where, pod.Netns)
		}
		if spec := specSays(w.T, w.Node, c); !strings.Contains(spec, fmt.Sprintf(`"mlx5_0:uverbs%d"`, number)) {
			return fmt.Errorf("the device has uverbs%d, and the spec says\n%s", number, spec)
		}
		return nil
	})
}

// gone ends a pod, whatever of its end the driver was told, and its claim: then the kernel and
// the driver agree that the device is on the host.
func (w *follower) gone(pod nri.Pod, c *resourceapi.ResourceClaim) {
	w.Helper()
	w.runtime.Forget(pod)
	w.kernel.end(pod.Netns)
	unprepare(w.T, w.Node, c)
	if where, _ := w.kernel.at(); where != "" {
		w.Errorf("the pod has ended, and the device is in %q", where)
	}
}

// at is where the device is, and the number of its node.
func (k *kernel) at() (netns string, number int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.where, k.number
}

// end lets a namespace end: the kernel brings back what it had, and nothing can move into it any more, though the driver
// may still be at work for a list of pods that had it.
func (k *kernel) end(netns string) {
	k.mu.Lock()
	if k.ended == nil {
		k.ended = map[string]bool{}
	}
	k.ended[netns] = true
	k.mu.Unlock()
	_, err := k.Out("mlx5_0", netns)
	k.must(err)
}

// TestConnectionLost: the connection to the runtime is lost after each message of a pod's
// start, of its end, and of its removal. The runtime goes on; the driver comes back and
// makes up for it, and after each pod the device is on the host, for the next one.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	w := following(t)
	steps := map[string]func(nri.Pod) error{
		"run":    func(p nri.Pod) error { return w.runtime.Run(t.Context(), p) },
		"stop":   func(p nri.Pod) error { return w.runtime.Stop(t.Context(), p) },
		"remove": func(p nri.Pod) error { return w.runtime.Remove(t.Context(), p) },
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
	t.Logf("%d pods", w.claims)
}

// TestRestarts: what restarts while a pod has the device leaves it there, and what happens to
// the pod meanwhile is made up for.
func TestRestarts(t *testing.T) {
	t.Parallel()
	w := following(t)
	run := func(pod nri.Pod) {
		t.Helper()
		must.NoError(t, w.runtime.Run(t.Context(), pod))
	}
	restart := map[string]func(meanwhile func()){
		"runtime": func(meanwhile func()) { w.runtime.Down(); meanwhile(); w.runtime.Up(); w.connected() },
		"driver":  func(meanwhile func()) { w.driver.stop(); meanwhile(); w.start() },
	}
	for what, do := range restart {
		t.Run(what, func(t *testing.T) {
			pod, c := w.claim()
			run(pod)
			moves := w.kernel.moves
			do(func() {})
			w.in(pod, c)
			test.Eq(t, moves, w.kernel.moves, test.Sprintf("the device was moved %d times", w.kernel.moves-moves))
			do(func() { w.runtime.Forget(pod); w.kernel.end(pod.Netns) }) // its namespace ends
			w.gone(pod, c)

			pod, c = w.claim()
			do(func() { run(pod) }) // nobody is told of its start
			w.in(pod, c)
			must.NoError(t, w.runtime.Stop(t.Context(), pod))
			w.gone(pod, c)

			pod, c = w.claim()
			run(pod)
			again := pod
			again.Netns += "-again"
			do(func() { w.kernel.end(pod.Netns); run(again) }) // a new sandbox
			w.in(again, c)
			w.gone(again, c)
		})
	}
}

// TestEndsInAnyOrder: a claim that is gone before its pod's sandbox, and a namespace that is.
func TestEndsInAnyOrder(t *testing.T) {
	w := following(t)
	for name, end := range map[string]func(nri.Pod, *resourceapi.ResourceClaim){
		"claim first":     func(_ nri.Pod, c *resourceapi.ResourceClaim) { unprepare(t, w.Node, c) }, // the pod was deleted by force
		"namespace first": func(p nri.Pod, _ *resourceapi.ResourceClaim) { w.kernel.end(p.Netns) },
	} {
		pod, c := w.claim()
		must.NoError(t, w.runtime.Run(t.Context(), pod), must.Sprint(name))
		end(pod, c)
		for _, step := range []func() error{
			func() error { return w.runtime.Stop(t.Context(), pod) }, func() error { return w.runtime.Remove(t.Context(), pod) },
		} {
			test.NoError(t, step(), test.Sprint(name))
		}
		w.gone(pod, c)
	}
}

// TestReboot: after a reboot the device is on the host, and what the driver knew of pods is
// void.
func TestReboot(t *testing.T) {
	w := following(t)
	pod, c := w.claim()
	must.NoError(t, w.runtime.Run(t.Context(), pod))
	w.driver.stop()
	w.reboot()
	w.kernel.end(pod.Netns)
	clear(w.kernel.ended) // the runtime gives its pods the names of before
	w.start()
	moves := w.kernel.moves
	err := w.runtime.Run(t.Context(), pod)
	test.True(t, err == nil && w.kernel.moves == moves,
		test.Sprintf("a pod of an earlier boot: %d moves, %v", w.kernel.moves-moves, err))
	prepare(t, w.Node, c) // as the kubelet does
	must.NoError(t, w.runtime.Run(t.Context(), pod))
	w.in(pod, c)
	w.gone(pod, c)
}

// reboot makes all records those of an earlier boot.
func (w *follower) reboot() {
	w.Helper()
	for _, name := range drivertest.Files(w.T, w.RecordDir()) {
		path := filepath.Join(w.RecordDir(), name)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(strings.ReplaceAll(string(data), drivertest.BootID(w.T), "an-earlier-boot")), 0o600)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// TestNRIState: whoever asks how the driver does hears of NRI, and of moves.
func TestNRIState(t *testing.T) {
	w := following(t)
	test.Eq(t, "connected", w.driver.Status(t.Context()).NRI)
	pod, _ := w.claim()
	w.kernel.fails = fmt.Errorf("the kernel is busy")
	test.Error(t, w.runtime.Run(t.Context(), pod), test.Sprint("the move failed, and the pod runs"))
	test.NoError(t, w.runtime.Run(t.Context(), pod))
	test.NoError(t, w.runtime.Stop(t.Context(), pod))
	w.runtime.Down()
	drivertest.Eventually(t, func() error {
		p := w.driver.Status(t.Context())
		if p.NRI != "not connected" || len(p.Problems) != 1 || !strings.Contains(p.Problems[0], "pods with claims do not start") {
			return fmt.Errorf("NRI is %q, problems %q", p.NRI, p.Problems)
		}
		return nil
	})
	got := strings.Join(reasons(w.driver.Status(t.Context())), "\n")
	for _, want := range []string{"NRIDisconnected", "MovedOut team-a/pod-1", "MovedIn team-a/pod-1", "RDMAMoveFailed team-a/claim-1", "NRIConnected"} {
		test.StrContains(t, got, want, test.Sprint("the page's events lack"))
	}
	for metric, want := range map[string]float64{`rdma_driver_move_duration_seconds{in}`: 1, `rdma_driver_move_duration_seconds{out}`: 1, `rdma_driver_move_errors_total{in}`: 1, `rdma_driver_move_errors_total{out}`: 0} {
		test.EqOp(t, want, gathered(t, w.metrics)[metric], test.Sprint(metric))
	}
}

// gathered are the values of counters, and the counts of histograms, by the metric's name and
// its labels' values.
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
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// TestTriedAgain: a pod that started while the driver was not connected gets its device, though the first
// try fails: the runtime tells of it once. One that ends meanwhile is left alone.
func TestTriedAgain(t *testing.T) {
	t.Parallel()
	w := following(t)
	for name, ends := range map[string]bool{"runs": false, "ends": true} {
		pod, c := w.claim()
		w.runtime.Down()
		must.NoError(t, w.runtime.Run(t.Context(), pod))
		w.kernel.fail(fmt.Errorf("the kernel is busy: the pod %s", name))
		w.runtime.Up()
		w.driver.says("the kernel is busy: the pod " + name)
		if ends {
			w.driver.Sandboxes().Stopped(t.Context(), pod)
			test.SliceEmpty(t, w.driver.Pending(), test.Sprint("pending"))
		} else {
			w.in(pod, c)
		}
		w.connected()
		w.gone(pod, c)
	}
}

// fail lets the next move into a pod fail.
func (k *kernel) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fails = err
}
