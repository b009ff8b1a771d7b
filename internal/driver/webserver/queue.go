package webserver

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// The rates of requests to the API server per second and at once, how many requests may wait for their turn, and for
// how long. maxWait is less than Prometheus waits for a scrape.
const (
	reviewsPerSecond = 5
	reviewBurst      = 20
	reviewsAtOnce    = 4
	maxWaiting       = 32
	maxWaitingOf     = 2 // for one source
	maxWait          = 8 * time.Second
)

// queue passes requests on to the API server in the order of their arrival. A source has only a few places in it. So
// the queue refuses the requests of a source that sends too many, and other sources wait only for a moment.
type queue struct {
	limiter flowcontrol.RateLimiter
	turns   chan struct{}
	most    int // places for one source

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

// enter waits for a turn. The caller must end the turn with the returned function. enter returns errBusy if the queue
// has no free place, or if there is no turn in time.
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

// source returns the prefix that an address counts for: an IPv4 address, or the first 64 bits of an IPv6 address. The
// owner of such an IPv6 prefix can use any number of addresses in it.
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
