package report

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// These constants bound the queue. Events beyond them are lost, because the others give enough information.
const (
	maxObjects  = 256 // with events waiting
	maxMessages = 16  // of one object and one reason
)

// costOfHCA is the usual number of requests for the events of one HCA: one for the node, one for its claim and one for
// the pod, and a GET to find the pod.
const costOfHCA = 4

// queue holds pending events, merged by object and reason. It is safe for concurrent use.
type queue struct {
	node   string
	claims bool
	budget *budget.Budget
	steps  workqueue.TypedDelayingInterface[step]

	mu      sync.Mutex
	pending map[corev1.ObjectReference][]*pending    // in the order of sending; the object has a step
	forPods map[corev1.ObjectReference][]event.Event // by claim: for pods that are not known yet
}

// pending is a pending event.
type pending struct {
	event.Reason
	transitions []health.Transition
	messages    []string
}

// step is the next action for an object. It sends at most one request to the API server.
type step struct {
	do     stepKind
	object corev1.ObjectReference
	pace   pace // also of the steps that follow from it
}

// pace is when a step is taken.
type pace int

const (
	withinBudget pace = iota // at once: the budget had room
	inTurns                  // each in its turn
	withStart                // at once: a container starts, and the kubelet sends more requests for it than the driver
)

type stepKind string

const (
	sendEvent stepKind = "send an event"
	findPods  stepKind = "find the pods of a claim on the node"
	getPods   stepKind = "get the pods of a claim"
)

func newQueue(cfg Config) queue {
	return queue{
		node: cfg.NodeName, claims: cfg.ClaimEvents, budget: cfg.Budget,
		steps:   workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[step]{Clock: cfg.Clock}),
		pending: map[corev1.ObjectReference][]*pending{}, forPods: map[corev1.ObjectReference][]event.Event{},
	}
}

// add adds events of one cause. They are sent at once if the budget has room for all of them and for the events of
// mayFollow more HCAs.
func (q *queue) add(mayFollow int, batch ...event.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var steps []step
	cost, starts := mayFollow*costOfHCA, true
	send := func(object corev1.ObjectReference, e event.Event) {
		if q.hasRoom(object) && q.join(object, e) {
			steps = append(steps, step{do: sendEvent, object: object})
			cost++
		}
	}
	for _, e := range batch {
		starts = starts && e.Start
		object := e.Object(q.node)
		if e.Claim != "" && !q.claims || !q.hasRoom(object) {
			continue
		}
		send(object, e)
		switch {
		case !e.Pods:
		case e.PodName != "":
			send(event.PodReference(e.Namespace, e.PodName, e.Pod), e)
		default:
			if len(q.forPods[object]) == 0 {
				steps = append(steps, step{do: findPods, object: object})
				cost += 2 // the GET, and the event of one pod
			}
			q.forPods[object] = append(q.forPods[object], e)
		}
	}
	p := withStart
	if !starts {
		p = q.paceOf(withinBudget, cost)
	}
	q.schedule(steps, p)
}

// paceOf returns the pace of more requests that follow from steps of a pace.
func (q *queue) paceOf(p pace, requests int) pace {
	if p == withinBudget && requests > 0 && !q.budget.Take(requests) {
		return inTurns
	}
	return p
}

// hasRoom reports whether the queue has room for another event of an object. The caller holds mu.
func (q *queue) hasRoom(object corev1.ObjectReference) bool {
	return len(q.pending) < maxObjects && len(q.forPods[object]) < maxObjects
}

// join merges an event with the pending ones, and reports whether it is the first one of its object. The caller holds
// mu.
func (q *queue) join(object corev1.ObjectReference, e event.Event) (first bool) {
	first = len(q.pending[object]) == 0
	i := slices.IndexFunc(q.pending[object], func(p *pending) bool { return p.Reason.Reason == e.Reason.Reason })
	if i < 0 {
		i = len(q.pending[object])
		q.pending[object] = append(q.pending[object], &pending{Reason: e.Reason})
	}
	q.pending[object][i].add(e)
	return first
}

// add merges an event of the same object and reason. The last transition of each HCA counts.
func (p *pending) add(e event.Event) {
	if t := e.Transition; t != nil {
		p.transitions = slices.DeleteFunc(p.transitions, func(o health.Transition) bool { return o.Device == t.Device })
		p.transitions = append(p.transitions, *t)
	} else if len(p.messages) < maxMessages && !slices.Contains(p.messages, e.Message) {
		p.messages = append(p.messages, e.Message)
	}
}

func (p *pending) message() string {
	if len(p.transitions) > 0 {
		return text.Terminal(health.Summary(p.transitions))
	}
	return health.Cut(text.Terminal(strings.Join(p.messages, "; ")))
}

// schedule adds steps at a pace. The caller holds mu.
func (q *queue) schedule(steps []step, p pace) {
	for _, s := range steps {
		s.pace = p
		if p == inTurns && s.do != findPods { // findPods asks the kubelet, not the API server
			q.steps.AddAfter(s, q.budget.Turn())
		} else {
			q.steps.Add(s)
		}
	}
}

// next removes and returns the first pending event of an object, nil for none. It schedules the step of the following
// one.
func (q *queue) next(s step) *pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.pending[s.object]
	if len(all) == 0 {
		return nil
	}
	if q.pending[s.object] = all[1:]; len(all) > 1 {
		q.schedule([]step{s}, q.paceOf(s.pace, 1))
	} else {
		delete(q.pending, s.object)
	}
	return all[0]
}

// found adds the events that wait for the pods of a claim to these pods.
func (q *queue) found(s step, pods []corev1.ObjectReference) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var steps []step
	for _, e := range q.forPods[s.object] {
		for _, pod := range pods {
			if (e.Pod == "" || e.Pod == pod.UID) && q.hasRoom(pod) && q.join(pod, e) {
				steps = append(steps, step{do: sendEvent, object: pod})
			}
		}
	}
	delete(q.forPods, s.object)
	q.schedule(steps, q.paceOf(s.pace, len(steps)-1))
}

// notFound schedules a request for the pods of a claim that the kubelet's list does not answer.
func (q *queue) notFound(s step) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.schedule([]step{{do: getPods, object: s.object}}, s.pace)
}
