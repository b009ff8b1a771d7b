package webserver

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// How many questions go to the API server in a second and at a time, how many requests wait for their turn, and how
// long: less than Prometheus waits for a scrape.
const (
	reviewsPerSecond = 5
	reviewBurst      = 20
	reviewsAtOnce    = 4
	maxWaiting       = 32
	maxWaitingOf     = 2 // of one source
	maxWait          = 8 * time.Second
)

// queue lets requests ask the API server, in the order in which they came. A source has few places in it, so that
// one which asks without end is refused, and others wait for a moment only.
type queue struct {
	limiter flowcontrol.RateLimiter
	turns   chan struct{}
	most    int // places of one source

	mu      sync.Mutex
	waiting map[netip.Prefix]int
	total   int
}

func newQueue(most int) *queue {
	return &queue{
		limiter: flowcontrol.NewTokenBucketRateLimiter(reviewsPerSecond, reviewBurst),
		turns:   make(chan struct{}, reviewsAtOnce), most: most, waiting: map[netip.Prefix]int{},
	}
}

// enter waits for a turn, which the caller ends by the returned function. It returns errBusy where there is no place,
// or no turn in time.
func (q *queue) enter(ctx context.Context, from netip.Prefix) (leave func(), err error) {
	if !q.place(from) {
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case q.turns <- struct{}{}:
	case <-ctx.Done():
		q.free(from)
		return nil, errBusy
	}
	leave = func() { <-q.turns; q.free(from) }
	if q.limiter.Wait(ctx) != nil {
		leave()
		return nil, errBusy
	}
	return leave, nil
}

func (q *queue) place(from netip.Prefix) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total >= maxWaiting || q.waiting[from] >= q.most {
		return false
	}
	q.total++
	q.waiting[from]++
	return true
}

func (q *queue) free(from netip.Prefix) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.waiting[from]--; q.waiting[from] == 0 {
		delete(q.waiting, from)
	}
}

// source is whom an address counts for: an IPv4 address, or the 64 bits of an IPv6 address below which its
// owner has as many as he likes.
func source(address string) netip.Prefix {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := parsed.Addr().Unmap(), 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits) // never more bits than the address has
	return prefix
}
