package dra

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
)

// orphanInterval is how often to look for claims whose NodeUnprepareResources never came, because the kubelet lost its
// state or the node was reinstalled.
const orphanInterval = 10 * time.Minute

// orphanLoop sweeps orphans until ctx ends.
func (d *Driver) orphanLoop(ctx context.Context) {
	for {
		if err := d.sweepOrphans(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Orphaned claims not swept, they stay")
		}
		if !d.wait(ctx, wait.Jitter(orphanInterval, 0.2)) {
			return
		}
	}
}

// wait waits by the clock of the budget, and returns false if ctx ends before.
func (d *Driver) wait(ctx context.Context, long time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-d.requests.clock.After(long):
		return true
	}
}

// sweepOrphans releases claims that nobody can use any more (facts). After any error a claim stays, since taking the
// device of a running pod is worse than a leak; an event says so. It asks the kubelet first, and the API server only
// for the claims that the kubelet does not list, one by one in their turns.
func (d *Driver) sweepOrphans(ctx context.Context) error {
	plans, listErr := d.claims.List()
	if len(plans) == 0 {
		return listErr
	}
	claims, err := d.kubeletWord(ctx)()
	if err != nil {
		return errors.Join(listErr, err)
	}
	held := map[types.UID]string{}
	for _, p := range plans {
		if len(claims.Users(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p.CDIDevices())) > 0 {
			continue
		}
		if !d.wait(ctx, d.requests.budget.Turn()) {
			return ctx.Err()
		}
		// It asks the kubelet again: a pod may have started with the claim while this waited for its turn.
		f, _, err := d.release(ctx, p.UID, nil, d.kubeletWord(ctx))
		if err == nil && f.Allocation == allocationUnknown {
			err = f.Doubt
		}
		if err != nil {
			return errors.Join(listErr, err)
		}
		if v := f.verdict(); v == running || v == unsure {
			held[p.UID] = f.why(d.claims.RecordPath(p.UID))
			d.tellHeld(ctx, p, held[p.UID])
		}
	}
	d.heldTold = held
	klog.FromContext(ctx).V(3).Info("Looked for claims that nobody can use any more", "claims", len(plans), "held", len(held))
	return listErr
}

// tellHeld reports a claim that holds its HCAs without being allocated here, once for each reason.
func (d *Driver) tellHeld(ctx context.Context, p *plan.Plan, why string) {
	if d.heldTold[p.UID] == why {
		return
	}
	note := fmt.Sprintf("%s on node %s held by claim %s (%s): %s", strings.Join(p.HCAs(), ", "), d.cfg.NodeName, p.Claim(), p.UID, why)
	klog.FromContext(ctx).Error(nil, "HCAs stay held", "claim", p.Claim(), "uid", p.UID, "hcas", p.HCAs(), "reason", why)
	d.recorder.Record(report.Event{
		Namespace: p.Namespace, Claim: p.Name, UID: p.UID, Reason: report.StillHeld, Message: note,
	})
}
