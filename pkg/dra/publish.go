package dra

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// decideSpacing is the least time between two decisions on what to publish, where the
// first was to publish nothing anew: it costs this node alone. Between two
// publications there is the interval of the policy, so that a storm costs the API
// server one write a second.
const decideSpacing = 100 * time.Millisecond

// publishLoop keeps what is published in step with the host until ctx ends.
func (d *Driver) publishLoop(ctx context.Context) {
	if !d.waitForRuntime(ctx) {
		return
	}
	published, next := d.publish(ctx, nil), d.now().Add(d.spacing(true))
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.moved:
			if !sleep(ctx, next.Sub(d.now())) {
				return
			}
		case <-d.registered:
			// A kubelet that restarted may have another container runtime.
			if err := d.checkRuntime(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Container runtime not looked at again")
			}
		}
		before := published
		published = d.publish(ctx, before)
		next = d.now().Add(d.spacing(!equality.Semantic.DeepEqual(before, published)))
	}
}

// spacing is how long the next publication for a reason on this node has to wait.
func (d *Driver) spacing(published bool) time.Duration {
	interval := d.policy.Load().PublishInterval()
	if published {
		return interval
	}
	return min(interval, decideSpacing)
}

// sleep waits, and returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// publish hands the slices that fit the host and the policy to the publisher, unless
// they are the last ones, and returns them.
func (d *Driver) publish(ctx context.Context, last []resourceslice.Slice) []resourceslice.Slice {
	logger, watch := klog.FromContext(ctx), d.cfg.Metrics.Start(metrics.Publish)
	snap, plans, taints := d.host.snapshot(), d.plans(ctx), d.taints()
	decided := d.decide(d.offered(d.allocated.keep(d.host, snap, heldHCAs(plans))), plans, taints)
	d.published.Store(decided)
	watch.Lap(metrics.PhaseDecide)
	d.usesCounters.Store(decided.Options.Counters)
	if err := d.rememberTaints(taints); err != nil {
		logger.Error(err, "A restart of the driver will not know what is wrong with HCAs")
	}
	wanted := d.slices.Slices(decided.Offers(), decided.PublishedGroups(), decided.NetnsMode, decided.Options)
	watch.Lap(metrics.PhaseBuild)
	if equality.Semantic.DeepEqual(last, wanted) {
		return last
	}
	d.writeDeviceInfo(ctx, decided)
	d.publisher.Publish(wanted)
	watch.Lap(metrics.PhaseHandOver)
	watch.Whole(metrics.PhaseAll)
	d.cfg.Metrics.Published()
	reportHost(logger, snap)
	reportPolicy(logger, decided)
	logger.Info("Publishing ResourceSlices", "pool", d.cfg.NodeName, "slices", len(wanted), "devices", deviceCount(wanted))
	d.recorder.Note("Published", d.cfg.NodeName, "the pool has %d devices", deviceCount(wanted))
	return wanted
}

func deviceCount(published []resourceslice.Slice) int {
	n := 0
	for _, s := range published {
		n += len(s.Devices)
	}
	return n
}

// offered is what may be published of a snapshot: nothing on a node whose
// container runtime would drop the devices without a word.
func (d *Driver) offered(snap *rdma.Snapshot) *rdma.Snapshot {
	if d.withheld.get() != nil {
		return &rdma.Snapshot{}
	}
	return snap
}

// reportHost says what is wrong with the host.
func reportHost(logger klog.Logger, snap *rdma.Snapshot) {
	if snap.NetnsMode == rdma.NetnsExclusive {
		logger.Error(errExclusive, "No RDMA device is offered to new claims")
	}
	var problems []error
	for _, p := range snap.Problems {
		problems = append(problems, p)
	}
	if err := errors.Join(problems...); err != nil {
		logger.Error(err, "Some attributes could not be read")
	}
}

// reportPolicy says what is not published as the policy has it, and why.
func reportPolicy(logger klog.Logger, decided *decision) {
	for _, one := range decided.Decisions {
		if one.View == one.Wanted && one.Reason == "" {
			continue
		}
		message := "HCA not published as configured"
		if one.View == resources.ViewNone {
			message = "HCA not published"
		}
		logger.Info(message, "ibdev", one.HCA.IBDev, "rule", one.Rule, "publish", one.Wanted, "published", one.View, "reason", one.Reason)
	}
	for _, g := range decided.Groups {
		if g.Reason != "" {
			logger.Info("Group not published as configured", "group", g.Group.Name, "published", g.Published, "reason", g.Reason)
		}
	}
}
