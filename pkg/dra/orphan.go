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

// orphanInterval is how often claims are looked for whose NodeUnprepareResources
// never came: the kubelet lost its state, or the node was reinstalled around us.
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

// sweepOrphans forgets claims that nobody can use any more (facts). On any error a claim stays, as taking the device of a
// living pod is worse than a leak; whoever might miss the HCA is told. The kubelet comes first: the API server is asked
// only for the claims that it does not list, one by one in their turns.
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
		// The kubelet is asked again, since turns take their time: a pod may have started with the claim.
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

// tellHeld makes known that a claim holds its HCAs though nothing entitles it to them, once for each reason.
func (d *Driver) tellHeld(ctx context.Context, p *plan.Plan, why string) {
	if d.heldTold[p.UID] == why {
		return
	}
	note := fmt.Sprintf("%s on node %s held by claim %s (%s): %s", strings.Join(p.HCAs(), ", "), d.cfg.NodeName, p.Claim(), p.UID, why)
	klog.FromContext(ctx).Error(nil, "HCAs stay held", "claim", p.Claim(), "uid", p.UID, "hcas", p.HCAs(), "reason", why)
	d.recorder.Record(report.Event{Namespace: p.Namespace, Claim: p.Name, UID: p.UID, Reason: report.StillHeld, Message: note})
}
