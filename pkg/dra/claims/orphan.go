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

// orphanInterval is the interval of looking for claims whose NodeUnprepareResources never came. The kubelet may have
// lost its state, or the node was reinstalled.
const orphanInterval = 10 * time.Minute

// Sweep sweeps orphans until ctx ends.
func (c *Orphans) Sweep(ctx context.Context) {
	for {
		if err := c.sweep(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Orphaned claims not swept, they stay")
		}
		if !c.wait(ctx, wait.Jitter(orphanInterval, 0.2)) {
			return
		}
	}
}

// wait waits by the configured clock. It returns false if ctx ends first.
func (c *Orphans) wait(ctx context.Context, long time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.cfg.Clock.After(long):
		return true
	}
}

// sweep releases claims that no pod can use any more (evidence). After an error a claim stays, because a running
// pod must not lose its device; an event reports the claim. It asks the kubelet first. It asks the API server only
// about claims that the kubelet does not list, one by one within the budget.
func (c *Orphans) sweep(ctx context.Context) error {
	plans, listErr := c.cfg.Store.List()
	if len(plans) == 0 {
		return listErr
	}
	listing, err := c.askKubelet(ctx)()
	if err != nil {
		return errors.Join(listErr, err)
	}
	held := map[types.UID]string{}
	for _, p := range plans {
		if len(listing.Claims.Users(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p.CDIDevices())) > 0 {
			continue
		}
		if !c.wait(ctx, c.cfg.Budget.Turn()) {
			return ctx.Err()
		}
		// It asks the kubelet again: during the wait a pod may have started with the claim.
		e, _, err := c.release(ctx, p.UID, nil, c.askKubelet(ctx))
		if err == nil && e.Allocation == allocationUnknown {
			err = e.Doubt
		}
		if err != nil {
			return errors.Join(listErr, err)
		}
		if v := e.usage(); v == running || v == maybeInUse {
			held[p.UID] = e.why(c.cfg.Store.RecordPath(p.UID))
			c.reportHeld(ctx, p, held[p.UID])
		}
	}
	c.held = held
	klog.FromContext(ctx).V(3).Info("Looked for claims that nobody can use any more",
		"claims", len(plans), "held", len(held))
	return listErr
}

// reportHeld reports a claim that holds its HCAs and is not allocated here. It reports each reason once.
func (c *Orphans) reportHeld(ctx context.Context, p *plan.Plan, why string) {
	if c.held[p.UID] == why {
		return
	}
	note := fmt.Sprintf("%s on node %s held by claim %s (%s): %s",
		strings.Join(p.HCAs(), ", "), c.cfg.NodeName, p.Claim(), p.UID, why)
	klog.FromContext(ctx).Error(nil, "HCAs stay held", "claim", p.Claim(), "uid", p.UID, "hcas", p.HCAs(), "reason", why)
	c.cfg.Report.Record(event.Event{
		Namespace: p.Namespace, Claim: p.Name, UID: p.UID, Reason: event.StillHeld, Message: note,
	})
}
