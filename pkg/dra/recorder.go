package dra

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Of one object the API server gets that many events at once, and then one each ten seconds. The rest is in the log.
// The budget of the node is less (notices).
const (
	eventBurst     = 50
	eventPerSecond = 0.1
)

// recorder sends the events that notices give it. Nothing waits for it, and an event that
// cannot be written is lost.
type recorder struct {
	broadcaster record.EventBroadcaster
	events      record.EventRecorder
}

// newRecorder starts a recorder, which ends with stop.
func newRecorder(ctx context.Context, client kubernetes.Interface, node string) *recorder {
	b := record.NewBroadcaster(record.WithContext(ctx),
		record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventPerSecond}))
	b.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &recorder{
		broadcaster: b,
		events:      b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: plan.DriverName, Host: node}),
	}
}

func (r *recorder) stop() { r.broadcaster.Shutdown() }
