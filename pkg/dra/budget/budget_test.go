package budget_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
)

func ExampleBudget() {
	clock := clocktesting.NewFakePassiveClock(time.Time{})
	b := budget.New(budget.Default(), clock, func() float64 { return 0.5 })
	fmt.Println(b.Take(8), b.Take(1), b.Turn(), b.Turn())
	// Output: true false 1.5s 4.5s
}

// TestTake: a batch goes at once as a whole or not at all, and what was used comes back within a minute, but no more.
func TestTake(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	b := budget.New(budget.Default(), clock, rand.Float64)
	for _, step := range []struct {
		after    time.Duration
		requests int
		want     bool
	}{
		{0, 9, false}, {0, 8, true}, {0, 1, false}, // a batch that is too large uses nothing
		{8 * time.Second, 1, true}, {0, 1, false},
		{time.Minute, 8, true}, {0, 1, false},
		{time.Hour, 9, false}, {0, 8, true}, {0, 0, true},
		{-time.Hour, 1, false}, // somebody sets a clock: nothing comes back, and nothing breaks
	} {
		clock.SetTime(clock.Now().Add(step.after))
		test.Eq(t, step.want, b.Take(step.requests),
			test.Sprintf("%v later %d requests may go at once", step.after, step.requests))
	}
}

// TestTurns: turns come in their order, one in each spacing, whenever they are asked for.
func TestTurns(t *testing.T) {
	start := time.Now()
	clock := clocktesting.NewFakePassiveClock(start)
	limits := budget.Default()
	b := budget.New(limits, clock, rand.New(rand.NewPCG(1, 2)).Float64)
	for i := range 100 {
		at, from := clock.Now().Add(b.Turn()), start.Add(time.Duration(i)*limits.Spacing)
		test.True(t, !at.Before(from) && at.Before(from.Add(limits.Spacing)),
			test.Sprintf("turn %d is %v after the start", i, at.Sub(start)))
		clock.SetTime(clock.Now().Add(limits.Spacing / 2))
	}
	clock.SetTime(start.Add(time.Hour))
	got := b.Turn()
	test.True(t, got >= 0 && got < limits.Spacing, test.Sprintf("after a quiet hour a request waits for %v", got))
}

// TestReturn: a turn that is given back is given again, and many of them make no turns out of the past.
func TestReturn(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	limits := budget.Default()
	b := budget.New(limits, clock, func() float64 { return 0 })
	for range 100 {
		b.Turn()
	}
	b.Return()
	test.Eq(t, 99*limits.Spacing, b.Turn(), test.Sprint("the turn given back"))
	for range 100 {
		b.Return()
	}
	for i := range 3 {
		test.Eq(t, time.Duration(i)*limits.Spacing, b.Turn(), test.Sprintf("turn %d", i))
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	b.Turn()
	b.Return()
	b.Return()
	first, second := b.Turn(), b.Turn()
	test.True(t, first == 0 && second == limits.Spacing,
		test.Sprintf("after an hour the turns are in %v and %v", first, second))
}

// TestFleet: 5,000 nodes with a turn for each of 20 requests, from the same moment on, send about 1,667 in each second
// of a minute.
func TestFleet(t *testing.T) {
	const nodes, requests = 5000, 20
	clock := clocktesting.NewFakePassiveClock(time.Now())
	random := rand.New(rand.NewPCG(3, 4))
	var perSecond [60]int
	for range nodes {
		b := budget.New(budget.Default(), clock, random.Float64)
		for range requests {
			perSecond[int(b.Turn()/time.Second)]++
		}
	}
	for second, got := range perSecond {
		test.True(t, got >= 1500 && got <= 1833, test.Sprintf("%d requests in second %d", got, second))
	}
}

// TestDocument: the document that states the budget has its figures.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/performance.md")
	must.NoError(t, err)
	limits := budget.Default()
	perMinute := int(time.Minute / limits.Spacing)
	for _, want := range []string{
		fmt.Sprintf("**%d at once**. They refill within a minute", limits.AtOnce),
		fmt.Sprintf("**%d a minute** beyond that", perMinute),
		fmt.Sprintf("in its own span of %d s", limits.Spacing/time.Second),
		fmt.Sprintf("%d,%03d requests a second", 5000*perMinute/60/1000, (5000*perMinute+30)/60%1000),
	} {
		test.StrContains(t, string(text), want, test.Sprint("docs/performance.md does not say"))
	}
	test.Eq(t, time.Minute, limits.Refill, test.Sprint("what goes at once comes back within"))
}
