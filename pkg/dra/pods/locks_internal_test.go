package pods

import (
	"context"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
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
	var l flock.Names
	lock := func(names ...string) (unlock func()) {
		unlock, err := l.Lock(t.Context(), names...)
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
		_, err := l.Lock(ended, names...)
		test.ErrorIs(t, err, context.Canceled, test.Sprintf("a caller whose time is over has locked %v", names))
		first()
		(<-got)()
		first = lock(locksFor("a", "pci-0000-3b-00-0", "pci-0000-3b-00-1")...)
	}
	first()
}
