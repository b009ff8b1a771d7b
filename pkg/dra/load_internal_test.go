package dra

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestLinksThatFollow: of links that fail one after the other the first has no event at once, since the others are in
// doubt when it is judged: the drivers of all nodes would send it. The node gets one event of all.
func TestLinksThatFollow(t *testing.T) {
	n := drivertest.NewSharedNode(t, "hgx-h100")
	d, err := New(Config{
		NodeName: drivertest.NodeName, HostRoot: n.Root, KubeletDir: n.Dir, StateDir: n.StateDir, CDIDir: n.CDIDir, Site: plan.DefaultSite(),
	}, n.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	d.spend(budget.Default(), clocktesting.NewFakeClock(time.Now()))
	const apart, links = 10 * time.Millisecond, 9
	start := time.Now()
	look := func(after time.Duration, changes rdma.Changes) {
		t.Helper()
		if err := d.host.update(changes); err != nil {
			t.Fatal(err)
		}
		d.judge(t.Context(), start.Add(after))
	}
	look(-time.Minute, rdma.Changes{All: true})
	for i := range links {
		ibdev := fmt.Sprintf("mlx5_%d", i)
		port := filepath.Join(n.Root, "sys/class/infiniband", ibdev, "ports/1/state")
		if err := os.WriteFile(port, []byte("1: DOWN\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		look(time.Duration(i)*apart, rdma.Changes{IBDevs: rdma.NamesOf(ibdev)})
	}
	for i := range links {
		look(d.health.down+time.Duration(i)*apart, rdma.Changes{})
		if got := d.notices.queue.Len(); got != 0 {
			t.Fatalf("with %d of %d links down %d events go at once", i+1, links, got)
		}
	}
	node := (&notice{}).about(drivertest.NodeName)
	if all := d.notices.waiting[node]; len(all) != 1 || len(all[0].transitions) != links {
		t.Errorf("what waits for the node: %v", all)
	}
}

// TestTurnsOfEndedClaims: claims that ended take no turns from one that lives, however many there were: a node of
// short jobs would never tell the status of a claim again.
func TestTurnsOfEndedClaims(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	limits := budget.Default()
	s := newStatuses(true, budget.New(limits, c, func() float64 { return 0 }), c)
	for i := range limits.AtOnce + 100 {
		uid := types.UID(fmt.Sprint("short-", i))
		if atOnce := s.admit(uid, true); atOnce != (i < limits.AtOnce) {
			t.Fatalf("claim %d may have a request at once: %v", i, atOnce)
		}
		s.forget(uid)
	}
	s.admit("last", true)
	if wait := s.turns["last"].Sub(c.Now()); wait > limits.Spacing {
		t.Errorf("the only claim waits for %v", wait)
	}
}

// TestTurnThatMoves: the status of a claim is tried again after an error, though a turn that it had before comes while
// it waits. The queue keeps the earlier of two times.
func TestTurnThatMoves(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	s := newStatuses(true, budget.New(budget.Default(), c, func() float64 { return 0.5 }), c)
	defer s.queue.ShutDown()
	s.spread([]types.UID{"claim"}, false)
	s.start("claim", 0)
	uid, _ := s.queue.Get()
	if !s.started(uid) {
		t.Fatal("no pod of the claim starts")
	}
	s.again(uid)
	s.queue.Done(uid)
	drivertest.Eventually(t, func() error {
		if s.queue.Len() == 0 {
			c.Step(100 * time.Millisecond)
			return fmt.Errorf("nothing is in the queue %v after the turn of the claim", c.Now().Sub(s.turns[uid]))
		}
		uid, _ := s.queue.Get()
		defer s.queue.Done(uid)
		if !s.admit(uid, true) {
			return fmt.Errorf("the turn of the claim is not here yet")
		}
		return nil
	})
}
