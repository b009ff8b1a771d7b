package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// orphanInterval is how often to look for claims whose NodeUnprepareResources never came, because the kubelet lost its
// state or the node was reinstalled.
const orphanInterval = 10 * time.Minute

// SweepOrphans sweeps orphans until ctx ends.
func (c *releaser) SweepOrphans(ctx context.Context) {
	for {
		if err := c.sweepOrphans(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Orphaned claims not swept, they stay")
		}
		if !c.wait(ctx, wait.Jitter(orphanInterval, 0.2)) {
			return
		}
	}
}

// wait waits by the clock of the budget, and returns false if ctx ends before.
func (c *releaser) wait(ctx context.Context, long time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.cfg.Clock.After(long):
		return true
	}
}

// sweepOrphans releases claims that nobody can use any more (facts). After any error a claim stays, since taking the
// device of a running pod is worse than a leak; an event says so. It asks the kubelet first, and the API server only
// for the claims that the kubelet does not list, one by one in their turns.
func (c *releaser) sweepOrphans(ctx context.Context) error {
	plans, listErr := c.cfg.Store.List()
	if len(plans) == 0 {
		return listErr
	}
	claims, err := c.kubeletWord(ctx)()
	if err != nil {
		return errors.Join(listErr, err)
	}
	held := map[types.UID]string{}
	for _, p := range plans {
		if len(claims.Users(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p.CDIDevices())) > 0 {
			continue
		}
		if !c.wait(ctx, c.cfg.Budget.Turn()) {
			return ctx.Err()
		}
		// It asks the kubelet again: a pod may have started with the claim while this waited for its turn.
		f, _, err := c.release(ctx, p.UID, nil, c.kubeletWord(ctx))
		if err == nil && f.Allocation == allocationUnknown {
			err = f.Doubt
		}
		if err != nil {
			return errors.Join(listErr, err)
		}
		if v := f.verdict(); v == running || v == unsure {
			held[p.UID] = f.why(c.cfg.Store.RecordPath(p.UID))
			c.reportHeld(ctx, p, held[p.UID])
		}
	}
	c.held = held
	klog.FromContext(ctx).V(3).Info("Looked for claims that nobody can use any more", "claims", len(plans), "held", len(held))
	return listErr
}

// reportHeld reports a claim that holds its HCAs without being allocated here, once for each reason.
func (c *releaser) reportHeld(ctx context.Context, p *plan.Plan, why string) {
	if c.held[p.UID] == why {
		return
	}
	note := fmt.Sprintf("%s on node %s held by claim %s (%s): %s", strings.Join(p.HCAs(), ", "), c.cfg.NodeName, p.Claim(), p.UID, why)
	klog.FromContext(ctx).Error(nil, "HCAs stay held", "claim", p.Claim(), "uid", p.UID, "hcas", p.HCAs(), "reason", why)
	c.cfg.Report.Record(event.Event{
		Namespace: p.Namespace, Claim: p.Name, UID: p.UID, Reason: event.StillHeld, Message: note,
	})
}
