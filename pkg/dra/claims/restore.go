package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// lockTime is the time limit for the lock of a claim. Prepare and Unprepare hold the lock for milliseconds. If another
// driver hangs with the lock, this driver must still follow the host. It retries the claim later.
const lockTime = time.Second

// Restore makes the files of claims match the records and the host. It is idempotent. It writes missing and outdated
// specs, removes specs without a record, and removes temporary files of drivers that were killed. After an error it is
// called again after the next reading of the host.
func (c *Claims) Restore(ctx context.Context) error {
	// Specs must be listed before records. A record is always older than its spec. So a listed spec without a record in
	// the later list really has none.
	ids, errIDs := c.specs.IDs(cdi.KindClaim)
	plans, errPlans := c.cfg.Store.List()
	errs := []error{errIDs, errPlans, atomicfile.Sweep(c.cfg.CDIDir, atomicfile.Stale)}
	known := make(map[types.UID]bool, len(plans))
	for _, p := range plans {
		known[p.UID] = true
		errs = append(errs, c.restoreClaim(ctx, p.UID))
	}
	for _, id := range ids {
		if !known[types.UID(id)] {
			errs = append(errs, c.restoreClaim(ctx, types.UID(id)))
		}
	}
	errs = append(errs, c.cfg.Store.Sweep(plans))
	err := errors.Join(errs...)
	if err != nil {
		c.cfg.Node.NotAdapted()
	}
	return err
}

// Renew reads the host again and rewrites the specs of claims, after the kernel made new nodes.
func (c *Claims) Renew(ctx context.Context, plans []*plan.Plan) error {
	errs := []error{c.cfg.Node.Rescan()}
	for _, p := range plans {
		errs = append(errs, c.restoreClaim(ctx, p.UID))
	}
	return errors.Join(errs...)
}

// restoreClaim writes the spec of a prepared claim unless it is right already, and removes the spec of a claim without
// a record. It is idempotent. It holds the lock of the claim, which excludes Prepare and Unprepare. An unreadable
// record counts as a record.
//
// If the spec cannot be made now, it is removed. Its nodes may belong to another HCA now, and a container must fail to
// start rather than get the wrong device. The record stays, and the spec is restored when the device is back.
func (c *Claims) restoreClaim(ctx context.Context, uid types.UID) error {
	lockCtx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	release, err := c.cfg.Store.LockClaim(lockCtx, uid)
	if err != nil {
		return fmt.Errorf("restore CDI spec: %w", err)
	}
	defer release()
	p, err := c.cfg.Store.Get(uid)
	switch {
	case err != nil:
		return err
	case p == nil:
		return c.removeRubbish(ctx, uid)
	}
	var changed, made bool
	// It holds the lock of the claim, so it must not wait for a host in the middle of a change. The next reading
	// restores again.
	err = c.cfg.Node.Settle(ctx, time.Time{}, func() error {
		host := c.cfg.Node.Host()
		spec, err := c.makeSpec(host, p)
		if made = err == nil; made {
			changed, err = c.writeSpec(host, p, spec)
		}
		return err
	})
	if !made {
		_, removeErr := c.specs.Remove(specName(uid))
		err = errors.Join(err, removeErr)
	}
	if err != nil {
		return fmt.Errorf("restore CDI spec: %w", err)
	}
	if changed {
		klog.FromContext(ctx).Info("Restored the CDI spec of a prepared claim", "claim", p.Claim(), "uid", uid)
	}
	return nil
}

// removeRubbish removes the spec of a claim that is not prepared.
func (c *Claims) removeRubbish(ctx context.Context, uid types.UID) error {
	removed, err := c.specs.Remove(specName(uid))
	if removed {
		klog.FromContext(ctx).Info("Removed the CDI spec of a claim that is not prepared", "uid", uid)
	}
	return err
}
