package bench

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

const (
	// rounds are how often a claim is prepared, one at a time.
	rounds = 500
	// atOnce are the claims that are prepared at a time where it is not one, each by a call
	// of its own, and chunk how many of these there are between two turns.
	atOnce, chunk = 8, 64
)

// BenchmarkPrepare is NodePrepareResources as the kubelet sees it: on hosts of several
// sizes, beside claims that are prepared, one call at a time and eight, and with an API
// server at once and behind a network. A claim is prepared and ended again; only the
// first is timed.
func BenchmarkPrepare(b *testing.B) {
	for _, devices := range []int{8, 64, 1016} {
		b.Run(fmt.Sprintf("devices=%d", devices), func(b *testing.B) {
			pair, names := newPair(b, devices)
			live := 0
			for _, prepared := range []int{1, 64, 1016} {
				claims := addClaims(pair, prepared, chunk, names)
				for ; live < prepared-1; live++ {
					for _, s := range pair {
						s.prepare(b, claims.live[live])
					}
				}
				for _, latency := range []time.Duration{0, 2 * time.Millisecond} {
					name := fmt.Sprintf("prepared=%d/latency=%v", prepared, latency)
					b.Run(name+"/at-once=1", func(b *testing.B) { oneAtATime(b, pair, claims.free[0], latency) })
					b.Run(fmt.Sprintf("%s/at-once=%d", name, atOnce), func(b *testing.B) { manyAtATime(b, pair, claims.free, latency) })
				}
			}
		})
	}
}

// claimSet are claims of a node: those that stay prepared, and those that come and go.
type claimSet struct{ live, free []*resourceapi.ResourceClaim }

// addClaims makes the API servers know claims. Those that are to stay prepared are the same
// in each set. Where devices are few, all claims monitor.
func addClaims(pair []*side, live, free int, devices []string) claimSet {
	var set claimSet
	for i := range live {
		set.live = append(set.live, drivertest.Monitor(i, devices[i%len(devices)]))
	}
	for i := range free {
		set.free = append(set.free, drivertest.Monitor(100_000+i, devices[(live+i)%len(devices)]))
	}
	for _, s := range pair {
		s.AddClaim(set.live...)
		s.AddClaim(set.free...)
	}
	return set
}

// oneAtATime prepares one claim at a time.
func oneAtATime(b *testing.B, pair []*side, claim *resourceapi.ResourceClaim, latency time.Duration) {
	of := map[*side]times{}
	ended := map[*side]times{}
	requests := map[*side]map[string]int{}
	for round := range rounds {
		inTurn(round, pair, func(s *side) {
			s.SetLatency(latency)
			if round == 2 { // the first two pay for connections
				of[s], ended[s], requests[s] = nil, nil, s.Requests()
			}
			of[s] = append(of[s], took(func() { s.prepare(b, claim) }))
			ended[s] = append(ended[s], took(func() { s.unprepare(b, claim) }))
			s.SetLatency(0)
		})
	}
	for _, s := range pair {
		f := of[s].figures()
		f["unprepare-ns"] = ended[s].median()
		addRequests(f, perOp(requests[s], s.Requests(), len(of[s])))
		report(b, "driver="+s.name, f)
	}
}

// addRequests adds what the API server was asked.
func addRequests(f figures, perClaim map[string]float64) {
	f["GETs/op"], f["API-writes/op"] = 0, 0
	for request, n := range perClaim {
		if strings.HasPrefix(request, "GET ") {
			f["GETs/op"] += n
		} else {
			f["API-writes/op"] += n
		}
	}
}

// manyAtATime prepares eight claims at a time.
func manyAtATime(b *testing.B, pair []*side, claims []*resourceapi.ResourceClaim, latency time.Duration) {
	of := map[*side]times{}
	rates := map[*side]times{} // of a claim, in a chunk
	used, began := map[*side]time.Duration{}, map[*side]usage{}
	for _, s := range pair {
		began[s] = usageOf(b, s.driver.PID())
	}
	for round := range rounds / chunk {
		inTurn(round, pair, func(s *side) {
			s.SetLatency(latency)
			each := make(times, len(claims))
			before := usageOf(b, s.driver.PID()).processor
			whole := took(func() { s.prepareAtOnce(b, claims, each, atOnce) })
			used[s] += usageOf(b, s.driver.PID()).processor - before
			of[s] = append(of[s], each...)
			rates[s] = append(rates[s], whole/time.Duration(len(claims)))
			s.SetLatency(0)
			s.unprepare(b, claims...)
		})
	}
	for _, s := range pair {
		f := of[s].figures()
		f["claims/s"] = float64(time.Second) / rates[s].median()
		f["cpu-ns"] = float64(used[s]) / float64(len(of[s])) // of the driver, for a claim
		ended := usageOf(b, s.driver.PID())
		f["in-kernel-%"] = 100 * float64(ended.system-began[s].system) / float64(max(1, ended.system-began[s].system+ended.user-began[s].user))
		f["switches/op"] = float64(ended.wakeups-began[s].wakeups) / float64(len(of[s])) // Unprepare included
		report(b, "driver="+s.name, f)
	}
}

// prepareAtOnce prepares claims from as many goroutines as shall be at once, and notes how
// long each took.
func (s *side) prepareAtOnce(b *testing.B, claims []*resourceapi.ResourceClaim, each times, at int) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range at {
		workers.Go(func() {
			for i := range next {
				each[i] = took(func() { s.prepare(b, claims[i]) })
			}
		})
	}
	for i := range claims {
		next <- i
	}
	close(next)
	workers.Wait()
}

// BenchmarkGrowth prepares a claim on each device of a large host, one after the other:
// the last ones must cost what the first ones did.
func BenchmarkGrowth(b *testing.B) {
	const devices, edge = 1016, 32
	pair, names := newPair(b, devices)
	warm := drivertest.Claim(1_000_000, names[0])
	of := map[*side]times{}
	for _, s := range pair {
		s.AddClaim(warm)
		for range 2 * edge {
			s.prepare(b, warm)
			s.unprepare(b, warm)
		}
	}
	for i, name := range names {
		claim := drivertest.Claim(i, name)
		inTurn(i, pair, func(s *side) {
			s.AddClaim(claim)
			of[s] = append(of[s], took(func() { s.prepare(b, claim) }))
		})
	}
	for _, s := range pair {
		f := of[s].figures()
		f["last-over-first"] = of[s][devices-edge:].median() / of[s][:edge].median()
		report(b, "driver="+s.name, f)
	}
}
