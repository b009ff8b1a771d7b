package node

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const (
	// pollInterval is how often the states of ports are read: those of InfiniBand and EFA change without an event of
	// the kernel.
	pollInterval = 30 * time.Second
	// rescanInterval is how often the whole host is read without a reason.
	rescanInterval = 5 * time.Minute
)

// Start takes over what an earlier driver knew, and judges the health of the host for the first time. The listener
// hears of that too. Start comes before Run.
func (n *Node) Start(ctx context.Context, l Listener) error {
	n.listener = l
	logger := klog.FromContext(ctx)
	if err := n.recall(); err != nil {
		logger.Error(err, "What an earlier driver knew of the HCAs is lost")
	}
	if n.cfg.Mover != nil {
		if _, err := n.Rescan(); err != nil { // with those that it remembers, where pods have them
			return err
		}
	}
	n.health.readings = readPorts(n.sys, n.Host().Snapshot, n.health.thresholds)
	n.judge(ctx, n.cfg.Now())
	n.remember(ctx)
	return nil
}

// Run keeps the host and its health up to date until ctx ends, and tells the listener. It needs no API server.
func (n *Node) Run(ctx context.Context) {
	signals, looked := n.cfg.Source(ctx)
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	var followed *rdma.Snapshot
	for {
		due := time.NewTimer(n.health.due(n.cfg.Now(), rescanInterval))
		select {
		case <-ctx.Done():
			due.Stop()
			return
		case signal := <-signals:
			n.looked(ctx, n.update(signal.Changes))
		case <-rescan.C:
			n.looked(ctx, n.update(rdma.Changes{All: true}))
		case <-due.C: // nothing happened to HCAs in doubt for long enough
			n.looked(ctx, n.update(rdma.Changes{IBDevs: rdma.NamesOf(n.health.model.Pending()...)}))
		case <-poll.C:
			n.looked(ctx, n.poll())
			n.health.readings = readPorts(n.sys, n.Host().Snapshot, n.health.thresholds)
		case <-n.changed:
			n.adapt(ctx)
		}
		due.Stop()
		changed := n.judge(ctx, n.cfg.Now())
		if snap := n.Host().Snapshot; snap != followed {
			followed = snap
			changed = true
			looked(snap)
		}
		if changed {
			n.listener.Changed()
		}
	}
}

// kernelEvents announces what may have changed by the events of the kernel.
func kernelEvents(c watch.Config) Source {
	return func(ctx context.Context) (<-chan watch.Signal, func(*rdma.Snapshot)) {
		c.Report = func(err error) {
			klog.FromContext(ctx).Error(err, "Kernel events are lost for a moment")
		}
		w := watch.Start(ctx, c)
		return w.Signals(), w.Follow
	}
}

// looked ends a look at the host. If the listener has not adapted to an earlier change, it tries again.
func (n *Node) looked(ctx context.Context, err error) {
	if err != nil {
		klog.FromContext(ctx).Error(err, "Host not read, its last picture stays published")
	}
	if n.reshaped.Load() {
		n.changed.Set()
	}
}

// NotAdapted says that the listener has not adapted to the host. It is called again with the next look.
func (n *Node) NotAdapted() { n.reshaped.Store(true) }

// adapt has the listener adapt to a change of the host: claims whose devices have other nodes get new specs before a
// container restarts with old ones. The state of a link is no such change.
func (n *Node) adapt(ctx context.Context) {
	if !n.reshaped.Swap(false) {
		return
	}
	if err := n.listener.Reshaped(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Some CDI specs do not fit the host")
		n.NotAdapted()
	}
	n.remember(ctx)
}
