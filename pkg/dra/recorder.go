package dra

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// The API server gets that many events about an object at once, and then one each ten
// seconds: a switch that fails takes many links with it. The rest is in the log.
const (
	eventBurst     = 50
	eventPerSecond = 0.1
)

// recorder leaves events on the node, and on claims and pods (notices). Nothing waits for it, and an event that
// cannot be written is lost.
type recorder struct {
	broadcaster record.EventBroadcaster
	events      record.EventRecorder
	node        *corev1.ObjectReference
}

// newRecorder starts a recorder, which ends with stop.
func newRecorder(ctx context.Context, client kubernetes.Interface, node string) *recorder {
	b := record.NewBroadcaster(record.WithContext(ctx),
		record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventPerSecond}))
	b.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &recorder{
		broadcaster: b,
		events:      b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: plan.DriverName, Host: node}),
		// The kubelet gives the name for the UID as well, and kubectl describe looks for both.
		node: &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)},
	}
}

func (r *recorder) stop() { r.broadcaster.Shutdown() }

// tell leaves an event for each transition.
func (r *recorder) tell(transitions []health.Transition) {
	for _, t := range transitions {
		r.events.Event(r.node, eventType(t), t.Reason(), t.Note())
	}
}
