package dra

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/podresources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
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

// sweepOrphans forgets claims that nobody can use any more: the API server says that the claim of that UID is gone,
// and the kubelet no longer lists it. On any error a claim stays, as taking the device of a living pod is worse than
// a leak. The kubelet comes first: the API server is asked only for the claims that it does not list, one by one in
// their turns.
func (d *Driver) sweepOrphans(ctx context.Context) error {
	plans, listErr := d.claims.List()
	unlisted, err := d.unlisted(ctx, plans)
	if err != nil {
		return errors.Join(listErr, err)
	}
	var gone []*plan.Plan
	for _, p := range unlisted {
		if !d.wait(ctx, d.requests.budget.Turn()) {
			return ctx.Err()
		}
		isGone, err := d.claimGone(ctx, p)
		if err != nil {
			return errors.Join(listErr, err)
		}
		if isGone {
			gone = append(gone, p)
		}
	}
	// Again, since turns take their time: a pod may have started with a claim before that was deleted.
	if gone, err = d.unlisted(ctx, gone); err != nil {
		return errors.Join(listErr, err)
	}
	for _, p := range gone {
		klog.FromContext(ctx).Info("Forgetting a claim that is gone from the API server and from the kubelet",
			"claim", p.Claim(), "uid", p.UID)
		d.note("Forgotten", p.Claim(), "UID %s: it is gone from the API server and from the kubelet", p.UID)
		if err := d.forget(p.UID); err != nil {
			return errors.Join(listErr, err)
		}
	}
	return listErr
}

// unlisted returns the plans of claims that the kubelet does not list. Without plans it asks nobody.
func (d *Driver) unlisted(ctx context.Context, plans []*plan.Plan) (out []*plan.Plan, err error) {
	if len(plans) == 0 {
		return nil, nil
	}
	listed, err := podresources.List(ctx, d.cfg.podResourcesSocket(), plan.DriverName)
	if err != nil {
		return nil, err
	}
	for _, p := range plans {
		if listed[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// claimGone asks the API server whether the claim of a plan no longer exists.
func (d *Driver) claimGone(ctx context.Context, p *plan.Plan) (bool, error) {
	claim, err := d.client.ResourceV1().ResourceClaims(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for claim %s: %w", p.Claim(), err)
	}
	return claim.UID != p.UID, nil
}
