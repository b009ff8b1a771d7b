package offer

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
)

// waitForRuntime waits until the API server answers which container runtime the node has. It retries, and returns false
// if ctx ends first. Meanwhile claims are prepared and unprepared.
func (o *Offer) waitForRuntime(ctx context.Context) bool {
	for backoff := loop.NewBackoff(time.Second, 30*time.Second); ; {
		err := o.checkRuntime(ctx)
		if err == nil {
			return true
		}
		klog.FromContext(ctx).Error(err, "Nothing is published yet")
		o.publisher.NotYet(err)
		if !loop.Sleep(ctx, publisher.Pause(backoff, err, o.cfg.NodeName)) {
			return false
		}
	}
}

// checkRuntime reads the node's container runtime, and its pod CIDRs and labels. If the runtime may omit CDI devices,
// nothing is published, and the log has the reason.
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
	if reason != nil && !known {
		klog.FromContext(ctx).Error(reason, "No RDMA device is published")
	}
	return nil
}

// Withheld returns the reason why the container runtime keeps the driver from publishing, nil if it does not.
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
