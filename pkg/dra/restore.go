package dra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// staleAge is the age of a temporary file whose writer must have ended.
const staleAge = time.Minute

// lockTime is how long to wait for the lock of a claim. Prepare and Unprepare hold it for milliseconds. If another
// driver hangs with the lock, this one must still follow the host: it tries the claim again.
const lockTime = time.Second

// restore writes the specs of prepared claims that are missing or no longer match the host. It removes specs without a
// record, and temporary files of drivers that were killed.
func (d *Driver) restore(ctx context.Context) error {
	// Specs are listed first. A record is always older than its spec, so a listed spec whose record is not found
	// afterwards has none.
	ids, errIDs := d.cfg.specs().IDs(cdi.KindClaim)
	plans, errPlans := d.claims.List()
	errs := []error{errIDs, errPlans, atomicfile.Sweep(d.cfg.CDIDir, staleAge)}
	known := make(map[types.UID]bool, len(plans))
	for _, p := range plans {
		known[p.UID] = true
		errs = append(errs, d.restoreClaim(ctx, p.UID))
	}
	for _, id := range ids {
		if !known[types.UID(id)] {
			errs = append(errs, d.restoreClaim(ctx, types.UID(id)))
		}
	}
	errs = append(errs, d.claims.SweepMetadata(plans))
	err := errors.Join(errs...)
	d.restoreFailed.Store(err != nil)
	return err
}

// restoreClaim writes the spec of a prepared claim unless it is right already, and removes the spec of a claim without
// a record. An unreadable record counts as a record. The lock of the claim excludes Prepare and Unprepare.
//
// If the spec cannot be made now, it is removed: its nodes may belong to another HCA by now, and a container must fail
// to start rather than get the wrong device. The record stays, and the spec is restored with the device.
func (d *Driver) restoreClaim(ctx context.Context, uid types.UID) error {
	lockCtx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	release, err := d.claims.LockClaim(lockCtx, uid)
	if err != nil {
		return fmt.Errorf("restore CDI spec: %w", err)
	}
	defer release()
	p, err := d.claims.Get(uid)
	switch {
	case err != nil:
		return err
	case p == nil:
		return d.removeRubbish(ctx, uid)
	}
	// It does not wait for a host in the middle of a change: the next look at the host restores again.
	spec, err := d.makeSpec(p)
	if err != nil {
		_, removeErr := d.cfg.specs().Remove(specName(uid))
		return fmt.Errorf("restore CDI spec: %w", errors.Join(err, removeErr))
	}
	changed, refused := d.writeSpec(p, spec)
	if refused != nil {
		return fmt.Errorf("restore CDI spec: %w", refused)
	}
	if changed {
		klog.FromContext(ctx).Info("Restored the CDI spec of a prepared claim", "claim", p.Claim(), "uid", uid)
	}
	return nil
}

// removeRubbish removes the spec of a claim that is not prepared.
func (d *Driver) removeRubbish(ctx context.Context, uid types.UID) error {
	removed, err := d.cfg.specs().Remove(specName(uid))
	if removed {
		klog.FromContext(ctx).Info("Removed the CDI spec of a claim that is not prepared", "uid", uid)
	}
	return err
}

// rewrites is how often a spec is made again because the host changed while it was written.
const rewrites = 3

// writeSpec writes the spec of a claim and the files that it mounts. It reports whether the spec changed. The caller
// holds the lock of the claim, whose record exists. Afterwards it checks the spec against the host, and makes it again
// if the host has changed. A change after the check causes an event of the kernel, and its handler finds the record. A
// spec that is still wrong in the end is removed.
func (d *Driver) writeSpec(p *plan.Plan, spec *claimSpec) (changed bool, refused *refusal) {
	for range rewrites {
		errFiles := d.writeFiles(p, spec)
		wrote, err := d.cfg.specs().Write(specName(p.UID), spec.Spec, cdi.JSON)
		changed = changed || wrote
		if err != nil {
			err = fmt.Errorf("claim %s: %w; the driver needs a writable CDI directory with free space on the node", p.Claim(), err)
			return changed, d.withdraw(p, &refusal{err, metrics.ReasonCDI, false})
		}
		moved := d.host.confirm(spec.snap, p)
		switch {
		case moved == nil && errFiles != nil:
			return changed, &refusal{errFiles, recordReason(errFiles), false}
		case moved == nil:
			return changed, nil
		}
		refused = &refusal{moved, deviceReason(moved), true}
		if spec, err = d.makeSpec(p); err != nil {
			refused = &refusal{err, deviceReason(err), true}
			break
		}
	}
	return changed, d.withdraw(p, refused)
}

// withdraw removes a spec that may lead to another HCA, and returns the reason.
func (d *Driver) withdraw(p *plan.Plan, refused *refusal) *refusal {
	_, err := d.cfg.specs().Remove(specName(p.UID))
	refused.error = errors.Join(refused.error, err)
	return refused
}
