package dra

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// handOverAgain are the waits, one after the other, after which the slices are handed to the
// library once more when the kubelet has registered us. A kubelet that starts wipes the
// slices of its node at about the same time: at the first time there may be nothing
// to mend yet. The library itself looks 30 s after a deletion, and a minute after a slice
// was made, whose deletion it may have missed. Where nothing is to be mended that costs a
// comparison in memory.
var handOverAgain = []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 29 * time.Second}

// decideSpacing is the least time between two decisions on what to publish, where the
// first was to publish nothing anew: it costs this node alone. Between two
// publications there is the interval of the policy, so that a storm costs the API
// server one write a second.
const decideSpacing = 100 * time.Millisecond

// publishRetry is how long after a failure the slices are handed to the library again, and up to half
// as much more. The library tries by itself, but waits twice as long each time, up to
// a quarter of an hour: too long after a trouble that was long itself.
const publishRetry = 30 * time.Second

// publishLoop keeps the published slices in step with the host until ctx ends.
func (d *Driver) publishLoop(ctx context.Context) {
	if !d.waitForRuntime(ctx) {
		return
	}
	published, next := d.publish(ctx, nil), d.now().Add(d.spacing(true))
	waits := handOverAgain
	again := time.NewTimer(waits[0])
	defer again.Stop()
	var retry <-chan time.Time // nil while nothing failed
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.moved:
			if !sleep(ctx, next.Sub(d.now())) {
				return
			}
			before := published
			published = d.publish(ctx, published)
			next = d.now().Add(d.spacing(published != before))
		case <-d.registered:
			// A kubelet that restarted may have another container runtime.
			if err := d.checkRuntime(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Container runtime not looked at again")
			}
			published = d.publish(ctx, nil)
			waits = handOverAgain
			again.Reset(waits[0])
		case <-again.C:
			d.handOver(ctx, published)
			if waits = waits[1:]; len(waits) > 0 {
				again.Reset(waits[0])
			}
		case <-d.refused:
			if retry == nil {
				retry = time.After(wait.Jitter(d.retryAfter, 0.5))
			}
		case <-retry:
			published, retry = d.publish(ctx, nil), nil
		}
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

// publish hands the slices that fit the host and the policy to the library, unless
// they are those last handed to it, and returns them. Nil for last forces it.
func (d *Driver) publish(ctx context.Context, last *resourceslice.DriverResources) *resourceslice.DriverResources {
	logger, watch := klog.FromContext(ctx), d.cfg.Metrics.Start(metrics.Publish)
	snap, plans, taints := d.host.snapshot(), d.plans(ctx), d.taints()
	decided := d.decide(d.offered(d.allocated.keep(d.host, snap, heldHCAs(plans))), plans, taints)
	d.published.Store(decided)
	watch.Lap(metrics.PhaseDecide)
	d.usesCounters.Store(decided.Options.Counters)
	if err := d.rememberTaints(taints); err != nil {
		logger.Error(err, "A restart of the driver will not know what is wrong with HCAs")
	}
	wanted := resources.Build(d.cfg.NodeName, decided.Slices())
	watch.Lap(metrics.PhaseBuild)
	if last != nil && resources.Equal(*last, wanted) {
		return last
	}
	reportHost(logger, snap)
	reportPolicy(logger, decided)
	d.writeDeviceInfo(ctx, decided)
	d.handOver(ctx, &wanted)
	watch.Lap(metrics.PhaseHandOver)
	watch.Whole(metrics.PhaseAll)
	d.cfg.Metrics.Published()
	logger.Info("Publishing ResourceSlices", "pool", d.cfg.NodeName, "slices", len(wanted.Pools[d.cfg.NodeName].Slices), "devices", deviceCount(wanted))
	d.note("Published", d.cfg.NodeName, "the pool has %d devices", deviceCount(wanted))
	return &wanted
}

// handOver hands slices to the library, which compares them with those of the API server.
func (d *Driver) handOver(ctx context.Context, wanted *resourceslice.DriverResources) {
	if err := d.helper.PublishResources(ctx, *wanted); err != nil {
		d.fail(err)
	}
}

func deviceCount(r resourceslice.DriverResources) int {
	n := 0
	for _, pool := range r.Pools {
		for _, s := range pool.Slices {
			n += len(s.Devices)
		}
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
