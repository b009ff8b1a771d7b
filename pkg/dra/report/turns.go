package report

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
)

// turns decide when the next request for the status of a claim may be sent. The queue holds the claim, and at holds the
// time. It is safe for concurrent use.
type turns struct {
	queue   workqueue.TypedDelayingInterface[types.UID]
	retries workqueue.TypedRateLimiter[types.UID]
	budget  *budget.Budget
	clock   clock.WithTicker

	mu       sync.Mutex
	starting map[types.UID]bool      // a pod of the claim starts: the next request is sent at once
	at       map[types.UID]time.Time // when the next request of a claim may be sent
}

func newTurns(cfg Config) *turns {
	return &turns{
		queue:    workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{Clock: cfg.Clock}),
		retries:  workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](statusRetryMin, statusRetryMax),
		budget:   cfg.Budget,
		clock:    cfg.Clock,
		starting: map[types.UID]bool{},
		at:       map[types.UID]time.Time{},
	}
}

// end drops the state of a claim that has ended.
func (t *turns) end(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.starting, uid)
	t.drop(uid)
}

func (t *turns) queueStart(uid types.UID, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starting[uid] = true
	t.queue.AddAfter(uid, wait)
}

// takeStart reports whether a pod of the claim starts, and resets that. Such a claim needs no turn.
func (t *turns) takeStart(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	starting := t.starting[uid]
	if starting {
		t.drop(uid)
	}
	delete(t.starting, uid)
	return starting
}

// drop removes the turn of a claim, and returns it to the budget if its time has not come yet. The caller holds mu.
func (t *turns) drop(uid types.UID) {
	if at, waits := t.at[uid]; waits && t.clock.Now().Before(at) {
		t.budget.Return()
	}
	delete(t.at, uid)
}

// admit reports whether a request for a claim may be sent now. If not, the queue returns the claim again at its turn.
func (t *turns) admit(uid types.UID, atOnce bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if at, waits := t.at[uid]; waits {
		if now.Before(at) { // the queue keeps the earlier of two times: this one is of a dropped turn
			t.queue.AddAfter(uid, at.Sub(now))
			return false
		}
		delete(t.at, uid)
		return true
	}
	if atOnce && t.budget.Take(1) {
		return true
	}
	t.schedule(uid, t.budget.Turn())
	return false
}

// costOfStatus is the greatest number of requests for the status of a claim: a PATCH, and after a refusal a GET and a
// PUT.
const costOfStatus = 3

// scheduleAll schedules claims whose status differs for one cause. They get no wait if atOnce is true and the budget
// has room for all of them.
func (t *turns) scheduleAll(claims []types.UID, atOnce bool) {
	atOnce = atOnce && t.budget.Take(costOfStatus*len(claims))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, uid := range claims {
		if _, waits := t.at[uid]; waits {
			continue
		}
		if atOnce {
			t.schedule(uid, 0)
		} else {
			t.schedule(uid, t.budget.Turn())
		}
	}
}

// retry schedules a claim whose status could not be written. It lengthens each wait by up to half, so that the nodes of
// a cluster do not retry together.
func (t *turns) retry(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.schedule(uid, wait.Jitter(t.retries.When(uid), 0.5)+t.budget.Turn())
}

// schedule gives a claim a turn. The caller holds mu.
func (t *turns) schedule(uid types.UID, wait time.Duration) {
	t.at[uid] = t.clock.Now().Add(wait)
	t.queue.AddAfter(uid, wait)
}
