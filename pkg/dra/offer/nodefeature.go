package offer

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nodefeature"
)

// labelLoop keeps the feature file of the node's leaf switch as the last decision wants it, until ctx ends. When the
// driver ends, the file stays: the next driver renews it, and without one it expires.
func (o *Offer) labelLoop(ctx context.Context) {
	if o.cfg.NodeFeatureDir == "" {
		return
	}
	renew := time.NewTicker(nodefeature.Renew)
	defer renew.Stop()
	var last *string
	var faults loop.Errors
	for {
		due := last == nil
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			due = true
		case <-o.decided:
		}
		decided := o.last.Load()
		if decided == nil {
			continue
		}
		leaf := o.Policy.inForce.Load().LeafLabel(decided.Result)
		if !due && *last == leaf {
			continue
		}
		err := nodefeature.Write(o.cfg.NodeFeatureDir, leaf, o.cfg.Now())
		if faults.IsNew("label", err) {
			klog.FromContext(ctx).Error(err, "The node has no label with its leaf switch")
			o.cfg.Report.Warn("LeafLabelNotWritten", o.cfg.NodeFeatureDir, err)
		}
		if last = &leaf; err != nil {
			last = nil // the next decision tries again
		}
	}
}
