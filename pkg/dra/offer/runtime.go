package offer

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
)

// apiBackoff returns the backoff for requests to the API server: one second, doubled each time, 30 s at most. Each wait
// is up to half as long again, so that the nodes of a cluster do not retry together after the server was away.
func apiBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: math.MaxInt, Cap: 30 * time.Second}
}

// nodeObject is what the API server's object of the node says: of its container runtime, its addresses and its labels.
type nodeObject struct {
	cfg      *Config
	blocks   nodeBlocks
	withheld atomic.Pointer[error] // why the runtime keeps all back, nil if that is not known yet
}

// waitForRuntime waits until the API server answers which container runtime the node has. It retries, and returns false
// if ctx ends first. Meanwhile claims are prepared and unprepared.
func (o *Offer) waitForRuntime(ctx context.Context) bool {
	for backoff := apiBackoff(); ; {
		err := o.object.read(ctx)
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

// read reads the node's container runtime, and its pod CIDRs and labels. If the runtime may omit CDI devices,
// nothing is published, and the log has the reason.
func (o *nodeObject) read(ctx context.Context) error {
	object, err := o.cfg.Client.CoreV1().Nodes().Get(ctx, o.cfg.NodeName, metav1.GetOptions{})
	if err == nil {
		err = answer.About(object, "", o.cfg.NodeName) // without a runtime's version, nothing would be known against it
	}
	if err != nil {
		return fmt.Errorf("get node %s: %w", o.cfg.NodeName, err)
	}
	o.blocks.read(object, o.cfg.Now())
	o.cfg.Node.SetLabels(object.Labels)
	reason := dropsCDI(object.Status.NodeInfo.ContainerRuntimeVersion)
	if o.cfg.RuntimeCDI {
		reason = nil
	}
	if before := o.withheld.Swap(&reason); reason != nil && (before == nil || *before == nil) {
		klog.FromContext(ctx).Error(reason, "No RDMA device is published")
	}
	return nil
}

// Withheld returns the reason why the container runtime keeps the driver from publishing, nil if it does not.
func (o *Offer) Withheld() error {
	if reason := o.object.withheld.Load(); reason != nil {
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
