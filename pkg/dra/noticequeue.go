package dra

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// What waits is bounded, and what is beyond is lost: what waits says enough.
const (
	objectsAtMost = 256 // that have events waiting
	notesAtMost   = 16  // of one reason about one object
)

// costOfHCA is how many requests the events of one HCA take, as a rule: one on the node, on its claim and on its pod,
// and a GET for the pod.
const costOfHCA = 4

// notices are on their way to the API server. Few of them go at once, others in their turn: then what waits for one
// object is put together, in one event for each reason. Nothing waits for them, and one that is lost is lost: what
// they say is in the log as well.
type notices struct {
	node   string
	claims bool // claims and pods have events too
	budget *budget.Budget
	queue  workqueue.TypedDelayingInterface[step]

	mu      sync.Mutex
	waiting map[corev1.ObjectReference][]*event // in the order in which they are sent; its object has a step in the queue
	ofPods  map[corev1.ObjectReference][]notice // by claim: what its pods are to have
}

// event is one that waits to be sent.
type event struct {
	EventReason
	transitions []health.Transition
	notes       []string
}

// step is what is done next about an object. It makes one request at most.
type step struct {
	do    stepKind
	about corev1.ObjectReference
	pace  pace // also of what follows from it
}

// pace is when a step is taken.
type pace int

const (
	withinBudget pace = iota // at once, since the budget had room
	inTurns                  // each in its turn
	withStart                // at once, with a container that starts: the kubelet sends more requests for each
)

type stepKind string

const (
	sendEvent stepKind = "send an event"
	findPods  stepKind = "find the pods of a claim on the node"
	getPods   stepKind = "get the pods of a claim"
)

func newNotices(node string, claims bool, b *budget.Budget, c clock.WithTicker) *notices {
	return &notices{
		node: node, claims: claims, budget: b,
		queue:   workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[step]{Clock: c}),
		waiting: map[corev1.ObjectReference][]*event{}, ofPods: map[corev1.ObjectReference][]notice{},
	}
}

// add takes notices of one cause. They go at once if the budget has room for all of them, and for those of so many
// HCAs that may follow. It never waits.
func (q *notices) add(inDoubt int, batch ...notice) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var steps []step
	cost, starts := inDoubt*costOfHCA, true
	for _, n := range batch {
		starts = starts && n.Start
		about := n.about(q.node)
		if n.Claim != "" && !q.claims || !q.room(about) {
			continue
		}
		if q.hold(about, n) {
			steps = append(steps, step{do: sendEvent, about: about})
			cost++
		}
		if n.Pods {
			if len(q.ofPods[about]) == 0 {
				steps = append(steps, step{do: findPods, about: about})
				cost += 2 // the GET, and an event of one pod
			}
			q.ofPods[about] = append(q.ofPods[about], n)
		}
	}
	p := withStart
	if !starts {
		p = q.following(withinBudget, cost)
	}
	q.schedule(steps, p)
}

// following returns the pace of so many more requests that follow from others.
func (q *notices) following(p pace, requests int) pace {
	if p == withinBudget && requests > 0 && !q.budget.Take(requests) {
		return inTurns
	}
	return p
}

// room reports whether an object may have another event waiting. Its caller has mu.
func (q *notices) room(about corev1.ObjectReference) bool {
	return len(q.waiting) < objectsAtMost && len(q.ofPods[about]) < objectsAtMost
}

// hold has a notice wait, and reports whether it is the first one of its object. Its caller has mu.
func (q *notices) hold(about corev1.ObjectReference, n notice) (first bool) {
	first = len(q.waiting[about]) == 0
	i := slices.IndexFunc(q.waiting[about], func(e *event) bool { return e.Reason == n.Event.Reason })
	if i < 0 {
		i = len(q.waiting[about])
		q.waiting[about] = append(q.waiting[about], &event{EventReason: n.Event})
	}
	q.waiting[about][i].add(n)
	return first
}

// add puts a notice together with those of the same object and reason. Of an HCA the last word counts.
func (e *event) add(n notice) {
	if t := n.Transition; t != nil {
		e.transitions = slices.DeleteFunc(e.transitions, func(o health.Transition) bool { return o.Device == t.Device })
		e.transitions = append(e.transitions, *t)
	} else if len(e.notes) < notesAtMost && !slices.Contains(e.notes, n.Note) {
		e.notes = append(e.notes, n.Note)
	}
}

func (e *event) message() string {
	if len(e.transitions) > 0 {
		return health.Summary(e.transitions)
	}
	return health.Cut(strings.Join(e.notes, "; "))
}

// schedule has steps done. Its caller has mu.
func (q *notices) schedule(steps []step, p pace) {
	for _, s := range steps {
		s.pace = p
		if p == inTurns && s.do != findPods { // which asks the kubelet
			q.queue.AddAfter(s, q.budget.Turn())
		} else {
			q.queue.Add(s)
		}
	}
}

// next takes the event of an object that is to be sent, nil if there is none. If another one waits it has its turn.
func (q *notices) next(s step) *event {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting[s.about]
	if len(all) == 0 {
		return nil
	}
	if q.waiting[s.about] = all[1:]; len(all) > 1 {
		q.schedule([]step{s}, q.following(s.pace, 1))
	} else {
		delete(q.waiting, s.about)
	}
	return all[0]
}

// reached has the pods of a claim have what they are to have. Without pods, that is nothing.
func (q *notices) reached(s step, pods []corev1.ObjectReference) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var steps []step
	for _, n := range q.ofPods[s.about] {
		for _, pod := range pods {
			if (n.Pod == "" || n.Pod == pod.UID) && q.room(pod) && q.hold(pod, n) {
				steps = append(steps, step{do: sendEvent, about: pod})
			}
		}
	}
	delete(q.ofPods, s.about)
	q.schedule(steps, q.following(s.pace, len(steps)-1))
}

// noticeLoop sends events until ctx ends.
func (d *Driver) noticeLoop(ctx context.Context) {
	q := d.notices
	context.AfterFunc(ctx, q.queue.ShutDown)
	for {
		s, over := q.queue.Get()
		if over {
			return
		}
		d.take(ctx, s)
		q.queue.Done(s)
	}
}

// take takes one step.
func (d *Driver) take(ctx context.Context, s step) {
	switch s.do {
	case sendEvent:
		if e := d.notices.next(s); e != nil {
			d.recorder.events.Event(&s.about, e.Type, e.Reason, e.message())
		}
	case findPods:
		if pod := d.onlyPod(ctx, s.about); pod != nil {
			d.notices.reached(s, []corev1.ObjectReference{*pod})
			return
		}
		d.notices.mu.Lock()
		defer d.notices.mu.Unlock()
		d.notices.schedule([]step{{do: getPods, about: s.about}}, s.pace)
	case getPods:
		pods, err := d.podsOf(ctx, s.about)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Events of the pods of a claim are lost",
				"claim", klog.KRef(s.about.Namespace, s.about.Name), "cause", err.Error())
		}
		d.notices.reached(s, pods)
	}
}

// onlyPod returns the pod of a claim that was made for it from a template, as the kubelet knows it, without a request
// to the API server. It returns nil if that is not known.
func (d *Driver) onlyPod(ctx context.Context, claim corev1.ObjectReference) *corev1.ObjectReference {
	p, err := d.claims.Get(claim.UID)
	if err != nil || p == nil || p.Only == "" {
		return nil
	}
	listed, err := d.pods.Claims(ctx)
	pods := listed[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
	if err != nil || len(pods) != 1 {
		return nil
	}
	return podReference(claim.Namespace, pods[0].Name, p.Only)
}

// podsOf asks the API server which pods use a claim. One that has ended has none.
func (d *Driver) podsOf(ctx context.Context, about corev1.ObjectReference) (pods []corev1.ObjectReference, err error) {
	claim, err := d.client.ResourceV1().ResourceClaims(about.Namespace).Get(ctx, about.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && claim.UID != about.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get claim %s/%s for its pods: %w", about.Namespace, about.Name, err)
	}
	for _, user := range claim.Status.ReservedFor {
		if user.APIGroup == "" && user.Resource == "pods" {
			pods = append(pods, *podReference(about.Namespace, user.Name, user.UID))
		}
	}
	slices.SortFunc(pods, func(a, b corev1.ObjectReference) int { return cmp.Compare(a.Name, b.Name) })
	return pods, nil
}

func podReference(namespace, name string, uid types.UID) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: uid}
}
