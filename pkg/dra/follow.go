package dra

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const (
	// pollInterval is how often the states of ports are read: those of InfiniBand and
	// EFA change without an event of the kernel.
	pollInterval = 30 * time.Second
	// rescanInterval is how often the whole host is read without a reason.
	rescanInterval = 5 * time.Minute
)

// followLoop keeps the picture of the host and its health new, and the specs of
// prepared claims in step with it, until ctx ends. It needs no API server.
func (d *Driver) followLoop(ctx context.Context) {
	events, follow := d.events(ctx, d.cfg.Events)
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	var followed *rdma.Snapshot
	for {
		due := time.NewTimer(d.health.due(d.now(), rescanInterval))
		select {
		case <-ctx.Done():
			due.Stop()
			return
		case signal := <-events:
			d.looked(ctx, d.host.update(signal.Changes))
		case <-rescan.C:
			d.looked(ctx, d.host.update(rdma.Changes{All: true}))
		case <-due.C: // nothing happened to HCAs in doubt for long enough
			d.looked(ctx, d.host.update(rdma.Changes{IBDevs: rdma.NamesOf(d.health.model.Pending()...)}))
		case <-poll.C: // what changes without an event
			d.looked(ctx, d.host.poll())
			d.health.readings = readPorts(d.host.sys, d.host.snapshot(), d.health.thresholds)
		case <-d.host.changed: // found by one of the others, or by Prepare
			d.adapt(ctx)
		}
		due.Stop()
		changed := d.judge(ctx, d.now())
		if snap := d.host.snapshot(); snap != followed {
			followed = snap
			changed = true
			follow(snap)
		}
		if changed {
			notify(d.moved)
		}
	}
}

// kernelEvents returns what may have changed by the word of the kernel, until ctx ends,
// and what has to be told after each look what the picture was made of.
func kernelEvents(ctx context.Context, c watch.Config) (<-chan watch.Signal, func(*rdma.Snapshot)) {
	c.Report = func(err error) {
		klog.FromContext(ctx).Error(err, "Kernel events are lost for a moment")
	}
	w := watch.Start(ctx, c)
	return w.Signals(), w.Follow
}

// looked ends a look at the host. It logs an error, and repeats an incomplete restore.
func (d *Driver) looked(ctx context.Context, err error) {
	if err != nil {
		klog.FromContext(ctx).Error(err, "Host not read, its last picture stays published")
	}
	if d.restoreFailed.Load() {
		notify(d.host.changed)
	}
}

// adapt updates claims after a change of the host. Claims whose devices have other nodes now get new specs, before a
// container restarts with old ones. The state of a link is no such change.
func (d *Driver) adapt(ctx context.Context) {
	if !d.host.reshaped.Swap(false) && !d.restoreFailed.Load() {
		return
	}
	logger := klog.FromContext(ctx)
	if err := d.restore(ctx); err != nil {
		logger.Error(err, "Some CDI specs do not fit the host")
	}
	plans := d.plans(ctx)
	d.claimStatus.HostChanged()
	if err := d.remember(heldHCAs(plans)); err != nil {
		logger.Error(err, "A restart of the driver will not know HCAs that are away")
	}
}

// notify makes sure that a value is waiting in c.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
