package dra

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
)

// late are pods that run and may lack devices: nobody was there when they started, it took too long, or nobody
// could say whether a claim is theirs. The runtime tells of a pod's start once,
// so whoever could not have its devices then is tried again until it has them, or ends.
type late struct {
	mu   sync.Mutex
	pods map[nri.Pod]bool
	more chan struct{} // there are others
}

func newLate() *late { return &late{pods: map[nri.Pod]bool{}, more: make(chan struct{}, 1)} }

// set replaces the pods. One without a network namespace has the host's, or has ended.
func (l *late) set(pods []nri.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.pods)
	for _, p := range pods {
		if p.Netns != "" {
			l.pods[p] = true
		}
	}
	notify(l.more)
}

func (l *late) add(p nri.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods[p] = true
	notify(l.more)
}

func (l *late) drop(p nri.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pods, p)
}

func (l *late) has(p nri.Pod) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pods[p]
}

func (l *late) all() []nri.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.pods))
}

// Running implements nri.Handler.
func (s sandboxes) Running(ctx context.Context, pods []nri.Pod) {
	s.late.set(pods)
	s.catchUp(ctx)
	s.sweepInterfaces(ctx)
}

// catchUp gives late pods their devices.
func (s sandboxes) catchUp(ctx context.Context) {
	logger, pods := klog.FromContext(ctx), s.late.all()
	unsure, err := s.hear(ctx, pods...)
	if err != nil {
		logger.Error(err, "Pods may not have their RDMA devices yet")
	}
	for _, pod := range pods {
		has, err := s.giveLate(ctx, pod)
		if err != nil {
			logger.Error(err, "Pod does not have its RDMA devices yet")
		}
		if has && !slices.Contains(unsure, pod) {
			s.late.drop(pod)
		}
	}
}

// giveLate gives a late pod its devices, and reports whether it has all of which is known that they are
// its, or needs none.
func (s sandboxes) giveLate(ctx context.Context, pod nri.Pod) (has bool, err error) {
	if !s.awaits(ctx, pod) {
		return true, nil
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	if !s.late.has(pod) { // it was stopped, and what it had is back
		return true, nil
	}
	plans := s.plansFor(ctx, types.UID(pod.UID))
	err = s.give(ctx, pod, plans)
	if err == nil || errors.Is(err, rdmanetns.ErrEnded) { // runtimes list sandboxes that have ended, too
		return true, nil
	}
	return false, s.failed(pod, plans, err)
}

// The waits between two tries for late pods.
const (
	lateMin = time.Second
	lateMax = 30 * time.Second
)

// jitter makes a wait up to half as much longer: the nodes of a cluster whose API server was away do not come back
// at once.
func jitter(long time.Duration) time.Duration { return wait.Jitter(long, 0.5) }

// lateLoop tries again for late pods until ctx ends. Where there are none, nothing wakes it.
func (d *Driver) lateLoop(ctx context.Context) {
	for long := lateMin; ; {
		var again <-chan time.Time
		if len(d.late.all()) > 0 {
			again = time.After(jitter(long)) // each try asks for claims
		}
		select {
		case <-ctx.Done():
			return
		case <-d.late.more:
			long = lateMin
		case <-again:
			sandboxes{d}.catchUp(ctx)
			long = min(2*long, lateMax)
		}
	}
}
