package report

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// This file decides when the next request for the status of a claim may be sent. The queue holds the claim, and turns
// holds the time.

func (s *ClaimStatus) queueStart(uid types.UID, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting[uid] = true
	s.queue.AddAfter(uid, wait)
}

// takeStart reports whether a pod of the claim starts, and resets that. Such a claim needs no turn.
func (s *ClaimStatus) takeStart(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	starting := s.starting[uid]
	if starting {
		s.dropTurn(uid)
	}
	delete(s.starting, uid)
	return starting
}

// dropTurn removes the turn of a claim, and returns it to the budget if its time has not come yet. The caller holds mu.
func (s *ClaimStatus) dropTurn(uid types.UID) {
	if at, waits := s.turns[uid]; waits && s.cfg.Clock.Now().Before(at) {
		s.cfg.Budget.Return()
	}
	delete(s.turns, uid)
}

// admit reports whether a request for a claim may be sent now. If not, the queue returns the claim again at its turn.
func (s *ClaimStatus) admit(uid types.UID, atOnce bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	if at, waits := s.turns[uid]; waits {
		if now.Before(at) { // the queue keeps the earlier of two times: this one is of a dropped turn
			s.queue.AddAfter(uid, at.Sub(now))
			return false
		}
		delete(s.turns, uid)
		return true
	}
	if atOnce && s.cfg.Budget.Take(1) {
		return true
	}
	s.schedule(uid, s.cfg.Budget.Turn())
	return false
}

// costOfStatus is the greatest number of requests for the status of a claim: a PATCH, and after a refusal a GET and a
// PUT.
const costOfStatus = 3

// scheduleAll schedules claims whose status differs for one cause. They get no wait if atOnce is true and the budget
// has room for all of them.
func (s *ClaimStatus) scheduleAll(claims []types.UID, atOnce bool) {
	atOnce = atOnce && s.cfg.Budget.Take(costOfStatus*len(claims))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range claims {
		if _, waits := s.turns[uid]; waits {
			continue
		}
		if atOnce {
			s.schedule(uid, 0)
		} else {
			s.schedule(uid, s.cfg.Budget.Turn())
		}
	}
}

// retry schedules a claim whose status could not be written. It lengthens each wait by up to half, so that the nodes of
// a cluster do not retry together.
func (s *ClaimStatus) retry(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedule(uid, wait.Jitter(s.retries.When(uid), 0.5)+s.cfg.Budget.Turn())
}

// schedule gives a claim a turn. The caller holds mu.
func (s *ClaimStatus) schedule(uid types.UID, wait time.Duration) {
	s.turns[uid] = s.cfg.Clock.Now().Add(wait)
	s.queue.AddAfter(uid, wait)
}
