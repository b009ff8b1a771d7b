package loop

import (
	"math/rand/v2"
	"time"
)

// Backoff is the growing wait of a loop that retries. Only one goroutine may use it.
type Backoff struct{ shortest, longest, next time.Duration }

// NewBackoff returns waits that begin with the shortest, and double up to the longest. Next adds to each.
func NewBackoff(shortest, longest time.Duration) *Backoff {
	return &Backoff{shortest: shortest, longest: longest, next: shortest}
}

// Next returns the wait before the next try. It lengthens each wait by up to half, so that the nodes of a cluster do
// not retry together after the API server was away.
func (b *Backoff) Next() time.Duration {
	wait := b.next
	b.next = min(2*wait, b.longest)
	return wait + rand.N(wait/2+1)
}

// Reset makes the next wait the shortest one. Call it after a success.
func (b *Backoff) Reset() { b.next = b.shortest }
