package pods

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// locksFor returns the locks of a pod with HCAs.
func locksFor(uid string, hcas ...string) []string {
	p := &plan.Plan{}
	for _, hca := range hcas {
		p.Devices = append(p.Devices, plan.Device{Device: hca})
	}
	return locksOf(nri.Pod{UID: uid}, []*plan.Plan{p})
}

// TestLocks: a pod does not wait for a pod with other HCAs, and it waits for one with a common HCA.
func TestLocks(t *testing.T) {
	var l locks
	lock := func(names ...string) (unlock func()) {
		unlock, err := l.lock(t.Context(), names...)
		test.NoError(t, err)
		return unlock
	}
	first := lock(locksFor("a", "pci-0000-3b-00-0", "pci-0000-3b-00-1")...)
	lock(locksFor("b", "pci-0000-5e-00-0", "shared-pci-0000-5e-00-1")...)() // which would wait forever
	for _, names := range [][]string{
		locksFor("a"), locksFor("c", "shared-pci-0000-3b-00-1"), locksFor("d", "pci-0000-5e-00-0", "pci-0000-3b-00-0"),
	} {
		got := make(chan func())
		go func() { got <- lock(names...) }()
		select {
		case <-got:
			t.Fatalf("%v are locked while the first pod has one of them", names)
		default:
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.lock(ended, names...)
		test.ErrorIs(t, err, context.Canceled, test.Sprintf("a caller whose time is over has locked %v", names))
		first()
		(<-got)()
		first = lock(locksFor("a", "pci-0000-3b-00-0", "pci-0000-3b-00-1")...)
	}
	first()
	test.Eq(t, 0, len(l.names), test.Sprintf("left are %v", l.names))
}

// TestLocksOfMany: pods with random HCAs do not wait for each other in a circle, and never share an HCA.
func TestLocksOfMany(t *testing.T) {
	var l locks
	users := make([]int, 8) // which the locks protect, as the race detector sees
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for range 100 {
				mine := random.Perm(8)[:1+random.IntN(8)]
				names := make([]string, len(mine))
				for i, hca := range mine {
					names[i] = hcaLock(fmt.Sprint(hca))
				}
				unlock, err := l.lock(t.Context(), names...)
				if err != nil {
					t.Error(err)
					return
				}
				for _, hca := range mine {
					if users[hca]++; users[hca] != 1 {
						t.Errorf("HCA %d has %d users", hca, users[hca])
					}
				}
				for _, hca := range mine {
					users[hca]--
				}
				unlock()
			}
		})
	}
	all.Wait()
	test.Eq(t, 0, len(l.names), test.Sprintf("left are %v", l.names))
}
