package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The first eventBurst events of an object are sent at once, and eventPerSecond after that. The budget of the node
// allows less.
const (
	eventBurst     = 50
	eventPerSecond = 0.1
)

// Recorder records events. It is safe for use by several goroutines.
type Recorder struct {
	cfg     Config
	history nodestatus.Log
	queue   queue
}

// NewRecorder returns a recorder. It sends nothing before Run.
func NewRecorder(cfg Config) *Recorder {
	return &Recorder{cfg: cfg, queue: newQueue(cfg)}
}

// Record records an event. It never waits.
func (r *Recorder) Record(e event.Event) {
	r.history.Add(r.cfg.Now(), nodestatus.Event{
		Warning: e.Reason.Type == corev1.EventTypeWarning, Reason: e.Reason.Reason,
		Object: e.Namespace + "/" + e.Claim, Message: e.Message,
	})
	r.queue.add(0, e)
}

// RecordHealth records the transitions of HCAs: on the status page, and as events of the node, of the claims that hold
// the HCAs and of their pods. mayFollow is the number of further HCAs that may have the same cause, because ports that
// fail together are detected one after the other.
func (r *Recorder) RecordHealth(mayFollow int, transitions []health.Transition, plans []*plan.Plan) {
	if len(transitions) == 0 {
		return
	}
	var batch []event.Event
	for i := range transitions {
		t := &transitions[i]
		batch = append(batch, event.Event{Reason: event.Reason{Reason: t.Reason(), Type: event.TypeOf(*t)}, Transition: t})
	}
	for _, p := range plans {
		for _, e := range batch[:len(transitions)] {
			if slices.Contains(p.HCAs(), e.Transition.Device) {
				e.Namespace, e.Claim, e.UID, e.Pods = p.Namespace, p.Name, p.UID, true
				batch = append(batch, e)
			}
		}
	}
	r.queue.add(mayFollow, batch...)
	for _, t := range transitions {
		r.history.Add(r.cfg.Now(), nodestatus.Event{
			Warning: t.Grave(), Reason: t.Reason(), Object: t.Device, Message: t.Note(),
		})
	}
}

// Note records an event on the status page only. The log has all details.
func (r *Recorder) Note(reason, object, format string, args ...any) {
	r.history.Add(r.cfg.Now(), nodestatus.Event{Reason: reason, Object: object, Message: fmt.Sprintf(format, args...)})
}

// Warn records an error on the status page only.
func (r *Recorder) Warn(reason, object string, err error) {
	r.history.Add(r.cfg.Now(), nodestatus.Event{Warning: true, Reason: reason, Object: object, Message: err.Error()})
}

// History returns the events of the status page, the newest first.
func (r *Recorder) History() []nodestatus.Event { return r.history.Events() }

// Run sends Kubernetes events until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	b := record.NewBroadcaster(record.WithContext(ctx),
		record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventPerSecond}))
	defer b.Shutdown()
	b.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: r.cfg.Client.CoreV1().Events("")})
	events := b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: rdma.Domain, Host: r.cfg.NodeName})
	context.AfterFunc(ctx, r.queue.steps.ShutDown)
	for {
		s, over := r.queue.steps.Get()
		if over {
			return
		}
		r.take(ctx, events, s)
		r.queue.steps.Done(s)
	}
}

// take performs one step.
func (r *Recorder) take(ctx context.Context, events record.EventRecorder, s step) {
	switch s.do {
	case sendEvent:
		if e := r.queue.next(s); e != nil {
			events.Event(&s.object, e.Type, e.Reason.Reason, e.message())
		}
	case findPods:
		if pod := r.cfg.OnlyPod(ctx, s.object); pod != nil {
			r.queue.found(s, []corev1.ObjectReference{*pod})
		} else {
			r.queue.notFound(s)
		}
	case getPods:
		pods, err := r.podsOf(ctx, s.object)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Events of the pods of a claim are lost",
				"claim", klog.KRef(s.object.Namespace, s.object.Name), "cause", err.Error())
		}
		r.queue.found(s, pods)
	}
}

// podsOf asks the API server which pods use a claim. It returns none for a claim that has ended.
func (r *Recorder) podsOf(ctx context.Context, of corev1.ObjectReference) (pods []corev1.ObjectReference, err error) {
	claim, err := getClaim(ctx, r.cfg.Client, of.Namespace, of.Name, of.UID)
	if err != nil || claim == nil {
		return nil, err
	}
	for _, user := range claim.Status.ReservedFor {
		if user.APIGroup == "" && user.Resource == "pods" {
			pods = append(pods, event.PodReference(of.Namespace, user.Name, user.UID))
		}
	}
	slices.SortFunc(pods, func(a, b corev1.ObjectReference) int { return cmp.Compare(a.Name, b.Name) })
	return pods, nil
}
