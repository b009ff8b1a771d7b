package dra

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

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
	// busy are those to which somebody gives something now: it is closed when that is done.
	busy map[nri.Pod]chan struct{}
}

func newLate() *late {
	return &late{pods: map[nri.Pod]bool{}, more: make(chan struct{}, 1), busy: map[nri.Pod]chan struct{}{}}
}

// begin lets one at a time give something to a pod: its end has to be called, or another's to be waited for.
func (l *late) begin(p nri.Pod) (end func(), other <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.busy[p]; other != nil {
		return nil, other
	}
	mine := make(chan struct{})
	l.busy[p] = mine
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.busy, p)
		close(mine)
	}, nil
}

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
	var all sync.WaitGroup
	s.catchUp(ctx, &all, true)
	all.Wait()
	s.sweepInterfaces(ctx)
}

// catchUp gives late pods their devices, each for itself: one whose address takes long keeps no other waiting. Pods that somebody else
// gives something to are left to that, or waited for.
func (s sandboxes) catchUp(ctx context.Context, all *sync.WaitGroup, wait bool) {
	logger, pods := klog.FromContext(ctx), s.late.all()
	unsure, err := s.hear(ctx, append(s.onHost.unsure(), pods...)...)
	if err != nil {
		logger.Error(err, "Pods may not have their RDMA devices yet")
	}
	for _, pod := range pods {
		all.Go(func() {
			end, other := s.late.begin(pod)
			for ; end == nil && wait; end, other = s.late.begin(pod) {
				<-other
			}
			if end == nil {
				return
			}
			defer end()
			has, err := s.giveLate(ctx, pod)
			if err != nil {
				logger.Error(err, "Pod does not have its RDMA devices yet")
			}
			if has && !slices.Contains(unsure, pod) {
				s.late.drop(pod)
			}
		})
	}
}

// giveLate gives a late pod its devices, and reports whether it has all of which is known that they are
// its, or needs none.
func (s sandboxes) giveLate(ctx context.Context, pod nri.Pod) (has bool, err error) {
	if !s.awaits(ctx, pod) {
		return true, nil
	}
	plans, err := s.give(ctx, ctx, pod, func() bool { return s.late.has(pod) })
	switch {
	case err == nil, errors.Is(err, errUnwanted): // what it had is back
		return true, nil
	case errors.Is(err, rdmanetns.ErrEnded): // runtimes list sandboxes that have ended, too
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
	var all sync.WaitGroup
	defer all.Wait()
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
			sandboxes{d}.catchUp(ctx, &all, false)
			long = min(2*long, lateMax)
		}
	}
}
