package pods

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/flock"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claims"
)

// pending holds running pods that may lack devices. The driver was not connected when they started, an address took too
// long, or it was unknown whether a claim is reserved for them. The runtime announces the start of a pod only once, so
// the driver retries until a pod has its devices or ends. pending is safe for concurrent use.
type pending struct {
	mu   sync.Mutex
	pods map[nri.Pod]bool
	more loop.Signal // a pod was added
	// retried are locks of the pods, by UID: one goroutine at a time gives devices to a pod.
	retried flock.Names
	// failed has the pods that still lack devices. One may wait for days until another pod ends.
	failed loop.Errors
}

func newPending() *pending {
	return &pending{pods: map[nri.Pod]bool{}, more: loop.NewSignal()}
}

// set replaces the pods. It omits pods without a network namespace, which use the host's or have ended.
func (l *pending) set(pods []nri.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.pods)
	for _, p := range pods {
		if p.Netns != "" {
			l.pods[p] = true
		}
	}
	l.more.Set()
}

func (l *pending) add(p nri.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods[p] = true
	l.more.Set()
}

func (l *pending) drop(p nri.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pods, p)
	l.failed.IsNew(p.UID, nil)
}

func (l *pending) has(p nri.Pod) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pods[p]
}

func (l *pending) all() []nri.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.pods))
}

// Pending returns the running pods that may lack devices.
func (s *Pods) Pending() []nri.Pod { return s.pending.all() }

// Running implements nri.Handler. It returns after one try for each pod.
func (s *Pods) Running(ctx context.Context, pods []nri.Pod) {
	s.pending.set(pods)
	var all sync.WaitGroup
	s.retryPending(ctx, ctx, &all)
	all.Wait()
	s.interfaces.sweep(ctx)
	s.gids.check(ctx)
}

// retryPending gives pending pods their devices. Each pod has its own goroutine, which all waits for, so that a slow
// address delays no other pod. It waits for a pod that another goroutine has until the context waiting ends, and then
// skips the pod. With flock.NoWait it skips the pod at once.
func (s *Pods) retryPending(ctx, waiting context.Context, all *sync.WaitGroup) {
	logger, pods := klog.FromContext(ctx), s.pending.all()
	learning, cancel := context.WithTimeout(ctx, claims.HalfOf(ctx, claims.Patience))
	unanswered, err := s.learnClaims(learning, append(s.hostPods.unanswered(), pods...)...)
	cancel()
	if err != nil {
		logger.Error(err, "Pods may not have their RDMA devices yet")
	}
	for _, pod := range pods {
		all.Go(func() {
			unlock, err := s.pending.retried.Lock(waiting, pod.UID)
			if err != nil {
				return
			}
			defer unlock()
			has, err := s.setUpAgain(ctx, pod)
			if s.pending.failed.IsNew(pod.UID, err) {
				logger.Error(err, "Pod does not have its RDMA devices yet")
			}
			if has && !slices.Contains(unanswered, pod) {
				s.pending.drop(pod)
			}
		})
	}
}

// setUpAgain gives a pending pod its devices. It reports whether the pod has every device that the driver knows it
// should have.
func (s *Pods) setUpAgain(ctx context.Context, pod nri.Pod) (has bool, err error) {
	if !s.needs(ctx, pod) {
		return true, nil
	}
	plans, err := s.setUp(ctx, ctx, pod, func() bool { return s.pending.has(pod) })
	switch {
	case err == nil, errors.Is(err, errUnwanted): // what the pod had is taken back
		return true, nil
	case errors.Is(err, rdmanetns.ErrEnded): // runtimes also list sandboxes that have ended
		return true, nil
	}
	return false, s.failed(pod, plans, err)
}

// These are the shortest and the longest wait between two tries for pending pods.
const (
	retryMin = time.Second
	retryMax = 30 * time.Second
)

// retry retries pending pods until ctx ends. It sleeps while there are none.
func (s *Pods) retry(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for backoff := loop.NewBackoff(retryMin, retryMax); ; {
		var again <-chan time.Time
		if len(s.pending.all()) > 0 {
			again = time.After(backoff.Next()) // each try sends requests to the API server
		}
		select {
		case <-ctx.Done():
			return
		case <-s.pending.more:
			backoff.Reset()
		case <-again:
			s.retryPending(ctx, flock.NoWait, &all)
		}
	}
}
