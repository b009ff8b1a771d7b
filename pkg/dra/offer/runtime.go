package offer

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// apiBackoff returns the backoff for requests to the API server: one second, doubled each time, 30 s at most. Each wait
// is up to half as long again, so that the nodes of a cluster do not retry together after the server was away.
func apiBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: math.MaxInt, Cap: 30 * time.Second}
}

// waitForRuntime waits until the API server answers which container runtime the node has. It retries, and returns false
// if ctx ends first. Meanwhile claims are prepared and unprepared.
func (o *Offer) waitForRuntime(ctx context.Context) bool {
	for backoff := apiBackoff(); ; {
		err := o.checkRuntime(ctx)
		if err == nil {
			return true
		}
		klog.FromContext(ctx).Error(err, "Nothing is published yet")
		o.publisher.NotYet(err)
		pause := backoff.Step()
		if publisher.NodeGone(err, o.cfg.NodeName) {
			pause = min(pause, wait.Jitter(publisher.NodePause, 0.5))
		}
		if !loop.Sleep(ctx, pause) {
			return false
		}
	}
}

// checkRuntime reads the node's container runtime, and its pod CIDRs and labels. If the runtime may omit CDI devices,
// nothing is published, and the log and an event have the reason.
func (o *Offer) checkRuntime(ctx context.Context) error {
	object, err := o.cfg.Client.CoreV1().Nodes().Get(ctx, o.cfg.NodeName, metav1.GetOptions{})
	if err == nil {
		err = answer.About(object, "", o.cfg.NodeName) // without a runtime's version, nothing would be known against it
	}
	if err != nil {
		return fmt.Errorf("get node %s: %w", o.cfg.NodeName, err)
	}
	o.blocks.read(object, o.cfg.Now())
	node.SetLabels(o.cfg.Node, object.Labels)
	reason := dropsCDI(object.Status.NodeInfo.ContainerRuntimeVersion)
	if o.cfg.RuntimeCDI {
		reason = nil
	}
	known := o.Withheld() != nil
	o.withheld.Store(&reason)
	if reason == nil || known {
		return nil // it was reported already
	}
	o.cfg.Report.Warn("NoRDMADevices", o.cfg.NodeName, reason)
	klog.FromContext(ctx).Error(reason, "No RDMA device is published")
	o.warnNode(ctx, object, event.NoDevices.Reason, reason.Error())
	return nil
}

// Withheld returns the reason why nothing is published, nil if slices are published.
func (o *Offer) Withheld() error {
	if reason := o.withheld.Load(); reason != nil {
		return *reason
	}
	return nil
}

// dropsCDI returns the reason why a runtime would start a container without its requested CDI devices, nil if it would
// not. containerd before 2.0 does so silently unless enable_cdi is set, and the node object does not show this setting.
func dropsCDI(version string) error {
	v, ok := strings.CutPrefix(version, "containerd://")
	if !ok || !strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.") {
		return nil
	}
	return fmt.Errorf("containerd %s leaves out CDI devices without an error unless enable_cdi is true: "+
		"set it in the CRI section of its config.toml, restart containerd, and confirm it with "+
		"the driver's flag --runtime-cdi-enabled (chart value runtimeCDIEnabled)", v)
}

// warnNode writes an event for the node. A failure is only logged, because the log has the same text.
func (o *Offer) warnNode(ctx context.Context, node *corev1.Node, reason, message string) {
	event := &corev1.Event{
		// The name is the same for each start: a driver that restarts repeatedly writes one event.
		ObjectMeta:     metav1.ObjectMeta{Name: rdma.Domain + "." + node.Name, Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		Type:           corev1.EventTypeWarning,
		Reason:         reason,
		Message:        message,
		Source:         corev1.EventSource{Component: rdma.Domain, Host: node.Name},
		FirstTimestamp: metav1.Now(),
		LastTimestamp:  metav1.Now(),
		Count:          1,
	}
	_, err := o.cfg.Client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, event, metav1.CreateOptions{})
	if err != nil && !answer.Said(err, metav1.StatusReasonAlreadyExists, corev1.Resource("events"), event.Name) {
		klog.FromContext(ctx).Error(err, "Event not recorded", "node", node.Name, "reason", reason)
	}
}
