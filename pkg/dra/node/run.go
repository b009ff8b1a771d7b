package node

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const (
	// pollInterval is the interval of reading the states of ports and the health of links. The states of InfiniBand
	// and EFA ports change without an event of the kernel.
	pollInterval = 30 * time.Second
	// rescanInterval is the interval of reading the whole host, and the sources of leaf switches, without an event.
	rescanInterval = 5 * time.Minute
)

// Start reads what an earlier driver has stored, and judges the health of the host for the first time. The listener's
// Health is called for that too. Start comes before Run.
func (n *Node) Start(ctx context.Context, l Listener) error {
	n.listener = l
	logger := klog.FromContext(ctx)
	if err := n.recall(); err != nil {
		logger.Error(err, "What an earlier driver knew of the HCAs is lost")
	}
	foreign := func(h rdma.HCA) bool { return h.Foreign() }
	if n.Mover != nil || slices.ContainsFunc(n.Host().HCAs, foreign) {
		if err := n.Rescan(); err != nil { // now finds recalled HCAs that are in pods, or whose interfaces are
			return err
		}
	}
	readHealth(n)
	n.leaves.look(ctx, n)
	n.judge(ctx, n.cfg.Now())
	n.remember(ctx)
	n.health.remember(ctx, n.cfg.Store.Memory())
	n.leaves.remember(ctx, n.cfg.Store.Memory())
	return nil
}

// Run keeps the host and its health up to date until ctx ends, and calls the listener. It needs no API server.
func (n *Node) Run(ctx context.Context) {
	signals, looked := n.cfg.Source(ctx)
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	var followed *rdma.Snapshot
	for {
		asks := false
		due := time.NewTimer(n.health.due(n.cfg.Now(), rescanInterval))
		select {
		case <-ctx.Done():
			due.Stop()
			return
		case <-n.leaves.wake:
			n.leaves.look(ctx, n)
		case signal := <-signals:
			n.looked(ctx, n.update(signal.Changes))
		case <-rescan.C:
			n.looked(ctx, n.update(rdma.Changes{All: true}))
			n.leaves.look(ctx, n)
		case <-due.C: // a time of an HCA in doubt has passed
			n.looked(ctx, n.update(rdma.Changes{IBDevs: rdma.NamesOf(n.health.model.Pending()...)}))
		case <-poll.C:
			n.looked(ctx, pollPorts(n))
			asks = n.askAgain.Swap(false)
			readHealth(n)
		case <-n.changed:
			n.adapt(ctx)
		}
		due.Stop()
		if read, err := n.readVPD(ctx); read {
			n.looked(ctx, err)
		}
		changed := n.judge(ctx, n.cfg.Now()) || asks
		if snap := n.Judged().Snapshot; snap != followed {
			followed = snap
			changed = true
			looked(snap)
		}
		if changed {
			n.listener.Changed()
		}
		n.health.remember(ctx, n.cfg.Store.Memory()) // last: it waits for a disk
		n.leaves.remember(ctx, n.cfg.Store.Memory())
	}
}

// pollPorts reads the states of ports, and updates the host if one changed.
func pollPorts(n *Node) error {
	return n.read(func(s *rdma.Scanner) (*rdma.Snapshot, error) { return s.Update(s.Poll()) })
}

// kernelEvents returns a Source that follows the events of the kernel.
func kernelEvents(c watch.Config) Source {
	return func(ctx context.Context) (<-chan watch.Signal, func(*rdma.Snapshot)) {
		c.Report = func(err error) {
			klog.FromContext(ctx).Error(err, "Kernel events are lost for a moment")
		}
		w := watch.Start(ctx, c)
		return w.Signals(), w.Follow
	}
}

// looked handles the result of a reading of the host. If specs do not fit the host since an earlier change, Run
// calls the listener again.
func (n *Node) looked(ctx context.Context, err error) {
	if err != nil {
		klog.FromContext(ctx).Error(err, "Host not read, its last picture stays published")
	}
	if n.reshaped.Load() {
		n.changed.Set()
	}
}

// NotAdapted records that some specs of claims still do not fit the host. The listener is called again after the next
// reading.
func (n *Node) NotAdapted() { n.reshaped.Store(true) }

// adapt calls the listener if specs of claims may no longer fit the host. Claims whose devices have other nodes must
// get new specs before a container restarts with old ones. The state of a link does not matter here.
func (n *Node) adapt(ctx context.Context) {
	if !n.reshaped.Swap(false) {
		return
	}
	if err := n.listener.Reshaped(ctx); n.misfits.IsNew("specs", err) {
		klog.FromContext(ctx).Error(err, "Some CDI specs do not fit the host")
	}
	n.remember(ctx)
}
