// Package budget says when a driver may send those requests to the API server for which nobody waits: events, the
// status of claims, looks for orphans.
//
// The drivers of all nodes meet the same cause at the same moment: a fabric that fails, a server that restarts, an
// update. What one of them sends at once, 5,000 of them send at once. So a driver has few requests that may go at
// once, which are enough for a link that fails alone. Everything else waits for its turn, and the turns of all nodes
// are spread evenly over time.
//
// Not in the budget is what somebody waits for: slices with their taints, and the claims that the kubelet wants
// prepared. docs/performance.md has the table of all requests.
package budget

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Limits are what a node may send.
type Limits struct {
	// AtOnce is how many requests may go at once. They come back within Refill.
	AtOnce int
	Refill time.Duration
	// Spacing is the mean time between two turns. Each turn is a random moment within a Spacing of its own.
	Spacing time.Duration
}

// Default returns the limits of every node: 20 turns a minute are 1,667 requests a second of 5,000 nodes.
func Default() Limits {
	return Limits{AtOnce: 8, Refill: time.Minute, Spacing: 3 * time.Second}
}

// Budget is what one driver may send. It is safe for use by several goroutines.
type Budget struct {
	limits Limits
	clock  clock.PassiveClock
	random func() float64 // from 0 to below 1

	mu     sync.Mutex
	atHand float64   // requests that may go at once
	seen   time.Time // when atHand was counted
	free   time.Time // all turns before have been given
}

// New returns an unused budget.
func New(limits Limits, clock clock.PassiveClock, random func() float64) *Budget {
	return &Budget{limits: limits, clock: clock, random: random, atHand: float64(limits.AtOnce), seen: clock.Now()}
}

// Take reports whether so many requests may go at once. If so they are used up, and otherwise none is.
func (b *Budget) Take(requests int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	back := float64(b.limits.AtOnce) * max(0, now.Sub(b.seen).Seconds()) / b.limits.Refill.Seconds()
	b.atHand, b.seen = min(float64(b.limits.AtOnce), b.atHand+back), now
	if float64(requests) > b.atHand {
		return false
	}
	b.atHand -= float64(requests)
	return true
}

// Turn gives one request its turn, and returns how long it has to wait for it.
func (b *Budget) Turn() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	begin := b.free
	if begin.Before(now) {
		begin = now
	}
	b.free = begin.Add(b.limits.Spacing)
	return begin.Sub(now) + time.Duration(b.random()*float64(b.limits.Spacing))
}

// GiveBack gives back a turn that has not come yet and will not be used. Those after it stay where they are, so the
// next request may share a Spacing with one that waits already. What is sent in all stays the same.
func (b *Budget) GiveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = b.free.Add(-b.limits.Spacing)
}
