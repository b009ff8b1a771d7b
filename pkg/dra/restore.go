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

// staleAge is the age from which a file in the making has no writer any more.
const staleAge = time.Minute

// lockTime is how long a restored claim is waited for. Whoever prepares or ends one takes milliseconds, and a driver
// that hangs must not stop another one from following the host: the claim is tried again.
const lockTime = time.Second

// restore writes the specs of prepared claims that are missing or no longer fit
// the host, and removes specs that no record explains and what killed drivers left
// half written.
func (d *Driver) restore(ctx context.Context) error {
	// Specs are listed first: a record is always older than its spec, so a spec
	// listed now whose record is not found later is rubbish.
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

// restoreClaim writes the spec of a prepared claim, if it is not as it should be, and removes that of one without a
// record. An unreadable record is a record. Nobody else begins or ends the claim meanwhile.
//
// A spec that cannot be made now is removed, as what it says may be another HCA's by
// now: a container fails to start rather than with the wrong device. The record
// stays, and with the device the spec comes back.
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
	// Without a wait: what settles later is found by the next look at the host.
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

// rewrites bounds how often a spec is made anew since the host has changed while it was written.
const rewrites = 3

// writeSpec writes the spec of a claim and the files that it mounts, and reports whether the spec changed. Its caller
// has the claim's lock, and the claim its record. What it wrote is checked against the host afterwards, and made anew if
// that has changed: of a change after the check the kernel's event tells, and whoever follows that finds the record.
// A spec that is not right in the end is removed.
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

// withdraw removes a spec that may lead to another HCA, and returns why.
func (d *Driver) withdraw(p *plan.Plan, refused *refusal) *refusal {
	_, err := d.cfg.specs().Remove(specName(p.UID))
	refused.error = errors.Join(refused.error, err)
	return refused
}
