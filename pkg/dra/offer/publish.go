package offer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/loop"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// decideSpacing is the shortest time between two decisions if the first one changed no slice: it costs only this node.
// Between two publications the interval of the policy applies, so that a storm of events costs the API server one write
// a second.
const decideSpacing = 100 * time.Millisecond

// publishLoop publishes after each change until ctx ends.
func (o *Offer) publishLoop(ctx context.Context) {
	if !o.waitForRuntime(ctx) {
		return
	}
	published, next := o.publish(ctx, nil), o.cfg.Now().Add(o.spacing(true))
	repeat := time.NewTicker(repeatInterval)
	defer repeat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.changed:
			if !loop.Sleep(ctx, next.Sub(o.cfg.Now())) {
				return
			}
		case <-repeat.C:
			delete(o.said, event.NoDevices.Reason)
		case <-o.registered:
			// The kubelet may have restarted with another container runtime, and the node may be a new object.
			if err := o.object.read(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Container runtime not looked at again")
			}
		}
		before := published
		published = o.publish(ctx, before)
		next = o.cfg.Now().Add(o.spacing(!equality.Semantic.DeepEqual(before, published)))
	}
}

// spacing returns the time until the next publication for a change on this node.
func (o *Offer) spacing(published bool) time.Duration {
	interval := o.Policy.inForce.Load().PublishInterval()
	if published {
		return interval
	}
	return min(interval, decideSpacing)
}

// publish passes the wanted slices to the publisher if they differ from the last ones, and returns them. The last ones
// are nil for the first call. One goroutine calls it.
func (o *Offer) publish(ctx context.Context, last []resourceslice.Slice) []resourceslice.Slice {
	logger, watch := klog.FromContext(ctx), o.cfg.Metrics.Start(metrics.Publish)
	view, policy := o.cfg.Node.View(ctx), o.Policy.inForce.Load()
	decided := o.decide(policy, view)
	o.last.Store(decided)
	o.decided.Set()
	o.cfg.Node.Expect(decided.Expected())
	o.said.record(whyNoDevices(decided, view.Snapshot, o.Withheld(), o.Policy.Refused()), o.cfg.Report)
	o.said.record(heldBack(view.Health, o.missing.healthPolicy(policy)), o.cfg.Report)
	if noBlock := o.object.blocks.noBlock(policy); o.said.record(noBlock, o.cfg.Report) {
		logger.Error(errors.New(noBlock.Message), "This node has no block of addresses for claims")
	}
	watch.Lap(metrics.PhaseDecide)
	wanted := o.slices.Slices(decided.Offers(), decided.PublishedGroups(), decided.NetnsMode, decided.Options)
	watch.Lap(metrics.PhaseBuild)
	if last != nil && equality.Semantic.DeepEqual(last, wanted) {
		return last
	}
	o.writeDeviceInfo(ctx, decided)
	o.publisher.Publish(wanted)
	watch.Lap(metrics.PhaseHandOver)
	watch.Whole(metrics.PhaseAll)
	o.cfg.Metrics.Published()
	reportHost(logger, view.Snapshot, o.cfg.Node.Moves.Possible())
	reportPolicy(logger, decided)
	logger.Info("Publishing ResourceSlices",
		"pool", o.cfg.NodeName, "slices", len(wanted), "devices", deviceCount(wanted))
	o.cfg.Report.Note("Published", o.cfg.NodeName, "the pool has %d devices", deviceCount(wanted))
	return wanted
}

func deviceCount(published []resourceslice.Slice) int {
	n := 0
	for _, s := range published {
		n += len(s.Devices)
	}
	return n
}

// reportHost logs the problems of the host. Where HCAs can move into pods, exclusive mode is none.
func reportHost(logger klog.Logger, snap *rdma.Snapshot, canMove bool) {
	if snap.NetnsMode == rdma.NetnsExclusive && !canMove {
		logger.Error(node.ErrExclusive, "No RDMA device is offered to new claims")
	}
	var problems []error
	for _, p := range snap.Problems {
		problems = append(problems, p)
	}
	if err := errors.Join(problems...); err != nil {
		logger.Error(err, "Some attributes could not be read")
	}
}

// reportPolicy logs which HCAs and groups are not published as the policy says, and why.
func reportPolicy(logger klog.Logger, decided *Decision) {
	for _, one := range decided.Decisions {
		if one.Form == one.Wanted && one.Reason == "" {
			continue
		}
		message := "HCA not published as configured"
		if one.Form == resources.FormNone {
			message = "HCA not published"
		}
		logger.Info(message, "ibdev", one.HCA.IBDev, "rule", one.Rule,
			"publish", one.Wanted, "published", one.Form, "reason", one.Reason)
	}
	for _, g := range decided.Groups {
		if g.Reason != "" {
			logger.Info("Group not published as configured", "group", g.Group.Name, "published", g.Published, "reason", g.Reason)
		}
	}
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
