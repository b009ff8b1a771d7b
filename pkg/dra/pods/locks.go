package pods

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
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
	held  chan struct{} // has one element while somebody holds the lock
	users int
}

// lock locks all names until unlock. It locks them in their order, so that two callers cannot wait for each other. The
// caller must hold none of them. If ctx ends before, lock returns an error and has locked none.
func (l *locks) lock(ctx context.Context, names ...string) (unlock func(), err error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for i, name := range names {
		if !l.lockOne(ctx, name) {
			l.release(names[:i])
			return nil, fmt.Errorf("wait for %s, for which the driver works now: %w", name, ctx.Err())
		}
	}
	return func() { l.release(names) }, nil
}

// lockOne reports whether it has the lock. If the lock is free, it does not look at ctx.
func (l *locks) lockOne(ctx context.Context, name string) bool {
	one := l.use(name)
	select {
	case one.held <- struct{}{}:
		return true
	default:
	}
	select {
	case one.held <- struct{}{}:
		return true
	case <-ctx.Done():
		l.unuse(name, one)
		return false
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
		one = &namedLock{held: make(chan struct{}, 1)}
		l.names[name] = one
	}
	one.users++
	return one
}

func (l *locks) unuse(name string, one *namedLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(l.names, name)
	}
}

// release unlocks names in the reverse of their order.
func (l *locks) release(names []string) {
	for _, name := range slices.Backward(names) {
		l.mu.Lock()
		one := l.names[name]
		l.mu.Unlock()
		<-one.held
		l.unuse(name, one)
	}
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
