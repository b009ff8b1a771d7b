package offer

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// reportLoss reports that the API server lacks slices, or has them again.
func reportLoss(ctx context.Context, to Reporter, l publisher.Loss) {
	since := time.Since(l.Since).Round(100 * time.Millisecond)
	e := event.Event{Reason: event.NotPublished, Message: fmt.Sprintf(
		"for %v the API server has not had the node's RDMA devices as they are: %v", since, l.Cause)}
	if l.Over {
		e = event.Event{Reason: event.PublishedAgain, Message: fmt.Sprintf(
			"the node's RDMA devices are published again, after %v: %v", since, l.Cause)}
	}
	klog.FromContext(ctx).Info("Publication on the API server", "state", e.Message)
	to.Record(e)
}

// briefLoss is the duration of a loss that is no problem: the usual restoration takes less.
const briefLoss = time.Second

// Unpublished returns why the API server does not have the wanted slices, nil if it has, or lacks them briefly.
// notReady means that this has lasted so long that people are told, or since the start: a driver that is ready has
// published what there is, be it nothing.
func (o *Offer) Unpublished() (reason error, notReady bool) {
	l := o.publisher.Loss()
	if l == nil || !l.First && time.Since(l.Since) < briefLoss {
		return nil, false
	}
	return fmt.Errorf("since %s the API server has not had the node's RDMA devices as they are: %w",
		l.Since.UTC().Format(time.RFC3339), l.Cause), l.Told || l.First
}

// Published returns the published devices with their HCAs: what was decided and what the API server has.
func (o *Offer) Published() map[string][]*rdma.HCA {
	out := map[string][]*rdma.HCA{}
	decided := o.last.Load()
	if decided == nil {
		return out
	}
	stored := o.publisher.Has()
	for name, hcas := range decided.Devices {
		if stored[name] {
			out[name] = hcas
		}
	}
	return out
}
