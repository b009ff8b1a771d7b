package pods

import (
	"slices"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// locks are locks by name, which exist while somebody holds them or waits for them. The zero value has none. It is safe
// for concurrent use.
//
// A caller that gives devices to a pod, or takes them back, holds the lock of the pod and of each of its HCAs. So pods
// with different HCAs do not wait for each other. The order is: these locks, then the lock of moves, then the
// locks of package attach.
type locks struct {
	mu    sync.Mutex
	names map[string]*namedLock
}

type namedLock struct {
	sync.Mutex
	users int
}

// lock locks all names until unlock. It locks them in their order, so that two callers cannot wait for each other. The
// caller must hold none of them.
func (l *locks) lock(names ...string) (unlock func()) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for _, name := range names {
		l.use(name).Lock()
	}
	return func() {
		for _, name := range slices.Backward(names) {
			l.release(name)
		}
	}
}

func (l *locks) use(name string) *namedLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names == nil {
		l.names = map[string]*namedLock{}
	}
	one := l.names[name]
	if one == nil {
		one = &namedLock{}
		l.names[name] = one
	}
	one.users++
	return one
}

func (l *locks) release(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.names[name]
	if one.users--; one.users == 0 {
		delete(l.names, name)
	}
	one.Unlock()
}

// podLock and hcaLock are names of locks.
func podLock(uid string) string { return "pod " + uid }
func hcaLock(hca string) string { return "HCA " + hca }

// locksOf returns the names of the locks of a pod and of the HCAs of plans.
func locksOf(pod nri.Pod, plans []*plan.Plan) []string {
	names := []string{podLock(pod.UID)}
	for _, p := range plans {
		for _, hca := range p.HCAs() {
			names = append(names, hcaLock(hca))
		}
	}
	return names
}

// locksOfRecord returns the names of the locks of an interface that a pod has.
func locksOfRecord(r attach.Record) []string {
	return []string{podLock(string(r.Pod.UID)), hcaLock(devicename.Parse(r.Device).HCA)}
}
