package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/largehost"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestHealthStaysKnown: the health of a host on which nothing changes stays known, as long as it is read. And it is no
// change that wakes the kubelet.
func TestHealthStaysKnown(t *testing.T) {
	host := largehost.New(t, 8)
	n := opened(t, Config{Sys: host})
	n.listener.Health = func(context.Context, int, []health.Transition, []*plan.Plan) {}
	start := time.Now()
	n.judge(t.Context(), start)
	changed := n.Judged().Outdated()
	now := start.Add(2 * health.DefaultConfig().Stale)
	test.False(t, n.judge(t.Context(), now), test.Sprint("the health has changed"))
	status, message := n.Judged().Health.Report(host.Last.Name, now)
	test.Eq(t, health.Healthy, status, test.Sprintf("the last HCA is %s: %s", status, message))
	select {
	case <-changed:
		t.Error("who waits for a change of health was woken")
	default:
	}
}

// TestViewIsJudged: a View has the health that was judged from its own host. A slice made from a link that just fell
// would be written once without the taint, and once with it.
func TestViewIsJudged(t *testing.T) {
	host := largehost.New(t, 8)
	n := opened(t, Config{Sys: host})
	n.listener.Health = func(context.Context, int, []health.Transition, []*plan.Plan) {}
	now := time.Now()
	n.judge(t.Context(), now)
	before := n.View(t.Context())
	host.Down.Store(true)
	must.NoError(t, n.Rescan())
	look := func(what string, v View, want rdma.PortState, down bool) {
		t.Helper()
		verdict, _ := v.Health.Verdict(host.Last.Name)
		got := v.Lookup(host.Last.Name).Ports[0].State
		test.True(t, got == want && (len(verdict.Faults) > 0) == down,
			test.Sprintf("%s: the port is %s, with the faults %v; want %s, faults %v", what, got, verdict.Faults,
				want, down))
	}
	look("read and not judged", n.View(t.Context()), rdma.PortActive, false)
	test.Eq(t, rdma.PortDown, n.Host().Lookup(host.Last.Name).Ports[0].State, test.Sprint("the host has the port"))
	for range 2 {
		n.judge(t.Context(), now)
		now = now.Add(health.DefaultConfig().Down)
	}
	look("judged", n.View(t.Context()), rdma.PortDown, true)
	look("the view that was taken before", before, rdma.PortActive, false)
	select {
	case <-before.Outdated():
	default:
		t.Error("who waits for another health was not woken")
	}
	select {
	case <-n.Judged().Outdated():
		t.Error("the last health is outdated")
	default:
	}
}

// TestAnnouncedBeforeWritten: a change of health is announced before it is written for the next driver. A disk that
// hangs must not delay a taint.
func TestAnnouncedBeforeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, signals := largehost.New(t, 8), make(chan watch.Signal)
		n := opened(t, Config{Sys: host, Source: func(context.Context) (<-chan watch.Signal, func(*rdma.Snapshot)) {
			return signals, func(*rdma.Snapshot) {}
		}})
		written := func() bool {
			var past map[string]health.Past
			_, err := n.cfg.Store.Memory().Recall(memoryHealth, &past)
			test.NoError(t, err)
			_, fault := past[host.Last.Name].Since[health.PortDown]
			return fault
		}
		announced, early := 0, false
		l := Listener{
			Reshaped: func(context.Context) error { return nil },
			Health:   func(context.Context, int, []health.Transition, []*plan.Plan) {},
			Changed: func() {
				if v, _ := n.Judged().Health.Verdict(host.Last.Name); len(v.Faults) > 0 {
					announced++
					early = early || written()
				}
			},
		}
		must.NoError(t, n.Start(t.Context(), l))
		go n.Run(t.Context())
		host.Down.Store(true)
		signals <- watch.Signal{Changes: rdma.Changes{IBDevs: rdma.NamesOf(host.Last.IBDev)}}
		time.Sleep(2 * health.DefaultConfig().Down)
		synctest.Wait()
		test.True(t, announced != 0 && !early && written(),
			test.Sprintf("announced %d times, written before: %v, written: %v; want both, the announcement first",
				announced, early, written()))
	})
}

// TestExpect: what the policy expects applies at once. At the start a policy that expects nothing does not.
func TestExpect(t *testing.T) {
	n := opened(t, Config{Sys: largehost.New(t, 8)})
	for i, at := range []struct {
		unused, looks bool
	}{{false, false}, {true, true}, {true, false}, {false, true}} {
		n.Expect(map[string]health.Expected{"pci-0": {Unused: at.unused}})
		test.Eq(t, at.looks, len(n.changed) == 1, test.Sprintf("policy %d: whether the driver looks again", i))
		for len(n.changed) > 0 {
			<-n.changed
		}
	}
}
