package offer

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// apiBackoff spaces the tries to reach the API server: one second, twice as much each
// time, half a minute at most, and each up to half as much more, so that the nodes of
// a cluster whose server was away do not come back all at once.
func apiBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: math.MaxInt, Cap: 30 * time.Second}
}

// gate keeps back what would be published while the node's container runtime cannot be trusted with CDI devices.
type gate struct {
	cfg    *Config
	reason atomic.Pointer[error] // nil for none
}

// wait decides whether this node's container runtime can be trusted with
// CDI devices. It tries until the API server tells which runtime it is, and
// returns false if ctx ends before. Meanwhile claims are prepared and unprepared.
func (g *gate) wait(ctx context.Context) bool {
	for backoff := apiBackoff(); ; {
		err := g.check(ctx)
		if err == nil {
			return true
		}
		klog.FromContext(ctx).Error(err, "Nothing is published yet")
		select {
		case <-ctx.Done():
			return false
		case <-time.After(backoff.Step()):
		}
	}
}

// check asks for the container runtime. If it is not to be trusted, nothing
// is published, and log and event say why.
func (g *gate) check(ctx context.Context) error {
	node, err := g.cfg.Client.CoreV1().Nodes().Get(ctx, g.cfg.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", g.cfg.NodeName, err)
	}
	reason := dropsCDI(node.Status.NodeInfo.ContainerRuntimeVersion)
	if g.cfg.RuntimeCDI {
		reason = nil
	}
	known := g.set(reason) != nil
	if reason == nil || known {
		return nil // it was said
	}
	g.cfg.Report.Warn("NoRDMADevices", g.cfg.NodeName, reason)
	klog.FromContext(ctx).Error(reason, "No RDMA device is published")
	g.warnNode(ctx, node, event.NoDevices.Reason, reason.Error())
	return nil
}

// closed returns why nothing is published, nil if it is.
func (g *gate) closed() error {
	if reason := g.reason.Load(); reason != nil {
		return *reason
	}
	return nil
}

// set returns the reason that there was before.
func (g *gate) set(reason error) error {
	if before := g.reason.Swap(&reason); before != nil {
		return *before
	}
	return nil
}

// dropsCDI returns why a runtime would start a container without the CDI devices
// it was asked for, nil if it would not. containerd does so silently before 2.0
// unless enable_cdi is set, which the node object does not tell.
func dropsCDI(version string) error {
	v, ok := strings.CutPrefix(version, "containerd://")
	if !ok || !strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.") {
		return nil
	}
	return fmt.Errorf("containerd %s leaves out CDI devices without an error unless enable_cdi is true: "+
		"set it in the CRI section of its config.toml, restart containerd, and confirm it with the driver's flag --runtime-cdi-enabled (chart value runtimeCDIEnabled)", v)
}

// warnNode leaves an event on the node. It is a convenience: the log has it too.
func (g *gate) warnNode(ctx context.Context, node *corev1.Node, reason, message string) {
	event := &corev1.Event{
		// One name for a node: a driver that restarts again and again leaves one event.
		ObjectMeta:     metav1.ObjectMeta{Name: plan.DriverName + "." + node.Name, Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		Type:           corev1.EventTypeWarning,
		Reason:         reason,
		Message:        message,
		Source:         corev1.EventSource{Component: plan.DriverName, Host: node.Name},
		FirstTimestamp: metav1.Now(),
		LastTimestamp:  metav1.Now(),
		Count:          1,
	}
	if _, err := g.cfg.Client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, event, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		klog.FromContext(ctx).Error(err, "Event not recorded", "node", node.Name, "reason", reason)
	}
}
