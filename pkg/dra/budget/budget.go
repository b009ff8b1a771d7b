// Package budget limits when a driver sends requests to the API server for which nobody waits: events, the
// status of claims, searches for orphans.
//
// A failed fabric, a restarted server or an update affects the drivers of all nodes at the same time. A request of
// each is 5,000 requests in a cluster. So a driver may send a few requests at once, enough for a link that fails
// alone. Every other request waits for its turn. The turns of all nodes are spread evenly over time.
//
// The budget excludes requests for which somebody waits: slices with their taints, and the claims that the kubelet
// prepares. docs/performance.md has the table of all requests.
package budget

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Limits are the limits of a node.
type Limits struct {
	// AtOnce is the number of requests that may be sent at once. They refill within Refill.
	AtOnce int
	Refill time.Duration
	// Spacing is the mean time between two turns. Each turn is a random time within its own Spacing.
	Spacing time.Duration
}

// Default returns the limits of every node: 20 turns a minute are 1,667 requests a second from 5,000 nodes.
func Default() Limits {
	return Limits{AtOnce: 8, Refill: time.Minute, Spacing: 3 * time.Second}
}

// Budget limits the requests of one driver. It is safe for use by several goroutines.
type Budget struct {
	limits Limits
	clock  clock.PassiveClock
	random func() float64 // from 0 to below 1

	mu        sync.Mutex
	available float64   // requests that may be sent at once
	counted   time.Time // when available was computed
	free      time.Time // the first turn that was not given to a request
}

// New returns an unused budget.
func New(limits Limits, clock clock.PassiveClock, random func() float64) *Budget {
	return &Budget{
		limits: limits, clock: clock, random: random, available: float64(limits.AtOnce), counted: clock.Now(),
	}
}

// Take reports whether that many requests may be sent at once. It takes all of them from the budget, or none.
func (b *Budget) Take(requests int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	refill := float64(b.limits.AtOnce) * max(0, now.Sub(b.counted).Seconds()) / b.limits.Refill.Seconds()
	b.available, b.counted = min(float64(b.limits.AtOnce), b.available+refill), now
	if float64(requests) > b.available {
		return false
	}
	b.available -= float64(requests)
	return true
}

// Turn gives one request its turn, and returns the time until then.
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

// Return returns an unused future turn. Later turns keep their times, so the next request may share a Spacing with
// a waiting one. The total rate stays the same.
func (b *Budget) Return() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = b.free.Add(-b.limits.Spacing)
}
