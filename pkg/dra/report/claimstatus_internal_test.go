package report

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
)

// TestTurnsOfEndedClaims: claims that ended take no turns from one that lives, however many there were: a node of
// short jobs would never tell the status of a claim again.
func TestTurnsOfEndedClaims(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	limits := budget.Default()
	s := NewClaimStatus(Config{Budget: budget.New(limits, c, func() float64 { return 0 }), Clock: c})
	for i := range limits.AtOnce + 100 {
		uid := types.UID(fmt.Sprint("short-", i))
		must.Eq(t, (i < limits.AtOnce), s.turns.admit(uid, true), must.Sprintf("claim %d may have a request at once", i))
		s.Ended(uid)
	}
	s.turns.admit("last", true)
	test.LessEq(t, limits.Spacing, s.turns.at["last"].Sub(c.Now()), test.Sprint("the only claim waits"))
}

// TestTurnOfAStart: the status of a claim whose pod starts is written at once, and the next claim has its turn.
func TestTurnOfAStart(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	limits := budget.Default()
	s := newTurns(Config{Budget: budget.New(limits, c, func() float64 { return 0 }), Clock: c})
	defer s.queue.ShutDown()
	s.scheduleAll([]types.UID{"first", "starts"}, false)
	s.queueStart("starts", 0)
	must.True(t, s.takeStart("starts"), must.Sprint("no pod of the claim starts"))
	s.scheduleAll([]types.UID{"next"}, false)
	test.Eq(t, limits.Spacing, s.at["next"].Sub(c.Now()), test.Sprint("the next claim waits"))
}

// TestTurnThatMoves: the status of a claim is tried again after an error, though a turn that it had before comes while
// it waits. The queue keeps the earlier of two times.
func TestTurnThatMoves(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	s := newTurns(Config{Budget: budget.New(budget.Default(), c, func() float64 { return 0.5 }), Clock: c})
	defer s.queue.ShutDown()
	s.scheduleAll([]types.UID{"claim"}, false)
	s.queueStart("claim", 0)
	uid, _ := s.queue.Get()
	must.True(t, s.takeStart(uid), must.Sprint("no pod of the claim starts"))
	s.retry(uid)
	s.queue.Done(uid)
	drivertest.Eventually(t, func() error {
		if s.queue.Len() == 0 {
			c.Step(100 * time.Millisecond)
			return fmt.Errorf("nothing is in the queue %v after the turn of the claim", c.Now().Sub(s.at[uid]))
		}
		uid, _ := s.queue.Get()
		defer s.queue.Done(uid)
		if !s.admit(uid, true) {
			return fmt.Errorf("the turn of the claim is not here yet")
		}
		return nil
	})
}
