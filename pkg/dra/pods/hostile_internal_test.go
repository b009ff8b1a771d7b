package pods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// innocents is a node with a pod that has NET_ADMIN in its network namespace, and other pods on another HCA.
type innocents struct {
	*testing.T
	*served
	hostile nri.Pod
	ns      *podnettest.Namespace // of the hostile pod
	other   nri.Pod
	otherNS *podnettest.Namespace
	onHost  string // what the host says of the hostile pod's interface
	claim   string // its claim's UID
}

// runtimeTime is what a container runtime waits for a plugin.
const runtimeTime = 2 * time.Second

func newInnocents(t *testing.T, mode string) *innocents {
	t.Helper()
	i := &innocents{T: t, served: serve(t, "roce-sriov", attaching(vfNetdev, "ens1f0v1"))}
	i.net.IP("addr add 10.1.0.1/24 dev " + vfNetdev)
	i.runs(t)
	i.hostile, i.ns = inside(t, "hostile")
	i.other, i.otherNS = inside(t, "other")
	c1 := drivertest.WithNetwork(claimOf(1, i.hostile, vf), `{"mode": "`+mode+`", "addresses": ["10.9.0.2/24"]}`)
	c2 := drivertest.WithNetwork(claimOf(2, i.other, vf2), `{"mode": "macvlan", "addresses": ["10.9.1.2/24"]}`)
	i.prepares(t, c1)
	i.prepares(t, c2)
	i.claim = string(c1.UID)
	i.onHost = i.picture()
	must.NoError(t, i.Started(t.Context(), i.hostile))
	return i
}

// picture is the host's interface of the hostile pod, without counters, flags that follow its wire, and "tentative", which
// an address is until the kernel has looked for another owner.
func (i *innocents) picture() string {
	out, _ := i.net.Try("-o -d addr show dev " + vfNetdev)
	link, _ := i.net.Try("-o -d link show dev " + vfNetdev)
	_, link, _ = strings.Cut(link, " mtu ")
	return strings.ReplaceAll(out, " tentative", "") + link
}

// cycle starts and stops a pod on another HCA, and returns how long that took.
func (i *innocents) cycle() time.Duration {
	i.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(i.Context(), 30*time.Second)
	defer cancel()
	if err := i.Started(ctx, i.other); err != nil {
		i.Error(err)
	}
	if out, err := i.otherNS.Try("link show dev rdma0"); err != nil {
		i.Errorf("another pod has no interface when it starts: %s", out)
	}
	i.Stopped(ctx, i.other)
	if out, err := i.otherNS.Try("link show dev rdma0"); err == nil {
		i.Errorf("another pod has its interface after its end: %s", out)
	}
	return time.Since(began)
}

// stop ends the hostile pod as a runtime does, and returns a channel that is closed when the runtime has its answer.
func (i *innocents) stop() <-chan struct{} {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		ctx, cancel := context.WithTimeout(i.Context(), runtimeTime)
		defer cancel()
		i.Stopped(ctx, i.hostile)
	}()
	return answered
}

// whole waits until the node is as it was, and gives the interface to the next pod.
func (i *innocents) whole() {
	i.Helper()
	drivertest.Eventually(i.T, func() error {
		left, err := filepath.Glob(filepath.Join(i.interfaceDir(), "*"))
		if err == nil && len(left) > 0 {
			err = errors.New("records are left: " + strings.Join(left, ", "))
		}
		return err
	})
	if diff := cmp.Diff(i.onHost, i.picture()); diff != "" {
		i.Errorf("the host's interface (-before +after):\n%s", diff)
	}
	next, ns := inside(i.T, "hostile") // its next sandbox
	if err := i.Started(i.Context(), next); err != nil {
		i.Error(err)
	}
	ns.IP("link show dev rdma0")
	i.Stopped(i.Context(), next)
}

// TestWithin: an answer comes before the time of the runtime is over.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), runtimeTime)
		defer cancel()
		began, done := time.Now(), make(chan error)
		inTime, _ := within(ctx, func() error { return <-done })
		test.False(t, inTime, test.Sprint("in time"))
		test.Eq(t, runtimeTime*7/8, time.Since(began), test.Sprint("the answer took"))
		close(done)
	})
}

// TestHungPod: the driver works for one pod without an end, as a kernel may need minutes for what the pod has made. The
// runtime has its answers in time, other pods start and end, and at last everything is taken back.
func TestHungPod(t *testing.T) {
	t.Parallel()
	i := newInnocents(t, "move")
	lock, err := os.OpenFile(filepath.Join(i.interfaceDir(), strings.Join([]string{
		i.claim, vf, i.hostile.UID}, ".")+".json.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	must.NoError(t, err)
	<-i.stop()
	i.cycle()
	ctx, cancel := context.WithTimeout(t.Context(), runtimeTime)
	defer cancel()
	test.NoError(t, i.Started(ctx, i.hostile), test.Sprint("Started for the same pod"))
	test.True(t, slices.Contains(i.Pending(), i.hostile), test.Sprint("pending"))
	i.Stopped(ctx, i.hostile)
	i.cycle()
	must.NoError(t, errors.Join(os.Remove(lock.Name()), lock.Close()))
	i.whole()
}

// TestHostilePod: whatever a pod with NET_ADMIN makes in its network namespace, other pods start and end meanwhile, the
// driver's memory stays small, and the node is whole afterwards. With TEST_LONG the sizes are those of the kernel.
func TestHostilePod(t *testing.T) {
	t.Parallel()
	long := needs.IsLong()
	size := func(short, full int) int {
		if long {
			return full
		}
		return short
	}
	table := func(ns *podnettest.Namespace) int {
		index, _, _ := strings.Cut(ns.IP("-o link show dev rdma0"), ":")
		n, _ := strconv.Atoi(index)
		return 1_000_000 + n
	}
	for name, tc := range map[string]struct {
		mode  string
		flood func(*podnettest.Namespace)
	}{
		"rules at the table of its interface": {"macvlan", func(ns *podnettest.Namespace) {
			ns.Rules(size(200, 10_000), 4_000_000, table(ns))
			ns.Rules(size(2_000, 100_000), 3_000_000, 77)
		}},
		"rules, and the interface itself": {"move", func(ns *podnettest.Namespace) {
			ns.Rules(size(200, 10_000), 4_000_000, table(ns))
			ns.Rules(size(2_000, 100_000), 3_000_000, 77)
		}},
		"routes":    {"move", func(ns *podnettest.Namespace) { ns.Routes(size(2_000, 1_000_000), "rdma0") }},
		"addresses": {"move", func(ns *podnettest.Namespace) { ns.Addresses(size(500, 5_000), "rdma0") }},
		"addresses of its own": {"macvlan", func(ns *podnettest.Namespace) {
			ns.Wire("own")
			ns.Addresses(size(500, 5_000), "own")
		}},
		"interfaces":                   {"move", func(ns *podnettest.Namespace) { ns.Links(size(50, 5_000)) }},
		"alternative names":            {"move", func(ns *podnettest.Namespace) { ns.AltNames(600, "rdma0") }},
		"alternative names of its own": {"macvlan", func(ns *podnettest.Namespace) { ns.AltNames(600, "rdma0") }},
		"interfaces on top":            {"move", func(ns *podnettest.Namespace) { ns.OnTop(size(20, 1_000), "rdma0") }},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInnocents(t, tc.mode)
			alone := i.cycles(size(1, 10), closed)
			began := time.Now()
			tc.flood(i.ns)
			t.Logf("the pod took %v", time.Since(began))
			most := peak(func() {
				if err := i.Started(t.Context(), i.hostile); err != nil { // as after a restart of the driver
					t.Error(err)
				}
				began := time.Now()
				back := i.back(i.stop())
				beside := i.cycles(size(1, 10), back)
				<-back
				t.Logf("other pods: %v alone, %v beside it; the pod's end took %v", alone, beside, time.Since(began))
				test.True(t, !long || beside <= 2*alone+100*time.Millisecond,
					test.Sprintf("other pods need %v beside the pod, and %v without it", beside, alone))
			})
			t.Logf("heap %d MiB", most>>20)
			if most > 128<<20 { // the chart allows the whole process 256 MiB
				t.Errorf("the heap had %d MiB", most>>20)
			}
			i.whole()
		})
	}
}

// cycles returns the median of at least count cycles, and of more until a channel is closed.
func (i *innocents) cycles(count int, until <-chan struct{}) time.Duration {
	var all []time.Duration
	for ended := false; !ended || len(all) < count; {
		all = append(all, i.cycle())
		select {
		case <-until:
			ended = true
		default:
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// closed is a channel for those who wait for nothing.
var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// back returns a channel that is closed when the runtime has its answer and the interface is back on the host.
func (i *innocents) back(answered <-chan struct{}) <-chan struct{} {
	back := make(chan struct{})
	go func() {
		defer close(back)
		<-answered
		record := filepath.Join(i.interfaceDir(), i.claim+"*")
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if left, err := filepath.Glob(record); err != nil || len(left) == 0 {
				return
			}
		}
	}()
	return back
}

// peak calls f, and returns the largest heap during that.
func peak(f func()) uint64 {
	debug.FreeOSMemory()
	var most atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(stop)
	<-done
	return most.Load()
}
