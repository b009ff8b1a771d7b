package flock

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// NoWait is a context for those who want a lock only if it is free: it has ended.
var NoWait = func() context.Context {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return ended
}()

// Names are locks by name within this process. A lock exists while somebody holds it or waits for it. The zero value
// has none. It is safe for concurrent use.
type Names struct {
	mu    sync.Mutex
	names map[string]*namedLock
}

type namedLock struct {
	held  chan struct{} // has one element while somebody holds the lock
	users int
}

// Lock locks all names until unlock. It locks them in their order, so that two callers cannot wait for each other. The
// caller must hold none of them. If ctx ends before, Lock returns an error and has locked none.
func (l *Names) Lock(ctx context.Context, names ...string) (unlock func(), err error) {
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
func (l *Names) lockOne(ctx context.Context, name string) bool {
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

func (l *Names) use(name string) *namedLock {
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

func (l *Names) unuse(name string, one *namedLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(l.names, name)
	}
}

// release unlocks names in the reverse of their order.
func (l *Names) release(names []string) {
	for _, name := range slices.Backward(names) {
		l.mu.Lock()
		one := l.names[name]
		l.mu.Unlock()
		<-one.held
		l.unuse(name, one)
	}
}
