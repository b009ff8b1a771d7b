package dra

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/atomicfile"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// PrepareResourceClaims implements kubeletplugin.DRAPlugin. Each claim stands for
// itself: one that fails does not hold up the others. It is idempotent, and safe
// to run at the same time as itself, in this process and in another.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	// The kubelet gives up on the whole call after 45 s, so its claims share the wait.
	settled := time.Now().Add(settleTime)
	unsure := d.hearOfPods(ctx, claims)
	for _, claim := range claims {
		devices, err := d.prepareAfter(ctx, claim, func() ([]kubeletplugin.Device, error) {
			return d.prepare(ctx, claim, settled, unsure)
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Claim not prepared", "claim", klog.KObj(claim), "uid", claim.UID)
			// The kubelet tells the pod.
			d.tell(notice{Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID, Event: PrepareFailed, Note: err.Error()})
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// prepare prepares one claim. It waits until then for a host in the middle of a change. Unsure, unless it is nil, is
// why other claims of its pods may not be known.
func (d *Driver) prepare(ctx context.Context, claim *resourceapi.ResourceClaim, settled time.Time, unsure error) ([]kubeletplugin.Device, error) {
	watch := d.cfg.Metrics.Start(metrics.Prepare)
	defer watch.Whole(metrics.PhaseClaim)
	d.atWork.LockKey(string(claim.UID))
	defer d.unlock(claim.UID)
	if err := ctx.Err(); err != nil { // the claim may have ended while this call waited
		return nil, watch.Fail(metrics.ReasonGaveUp, fmt.Errorf("claim %s/%s: the kubelet gave up on this call: %w", claim.Namespace, claim.Name, err))
	}
	watch.Lap(metrics.PhaseWait)
	made, err := d.claims.Get(claim.UID)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Record of a claim is made anew", "claim", klog.KObj(claim), "uid", claim.UID)
	}
	if made != nil && !made.IsOf(claim) { // pods of that allocation may run: prepareAfter looks into it
		return nil, watch.Fail(metrics.ReasonInUse, fmt.Errorf("claim %s: %w", made.Claim(), made.Earlier()))
	}
	p, err := plan.New(claim, d.node(ctx).As(made))
	watch.Lap(metrics.PhasePlan)
	if err != nil {
		return nil, watch.Fail(metrics.ReasonParameters, err)
	}
	if made != nil {
		p = p.WithPods(made.Pods...) // the claim may have been read before one of them came
	} else if p.HasNetwork() && unsure != nil {
		return nil, watch.Fail(metrics.ReasonAPI, fmt.Errorf("claim %s: name its network interfaces: %w", p.Claim(), unsure))
	}
	// A claim that has its devices from before the mode changed keeps them: its pod may
	// have the host's network.
	if made == nil {
		err := d.host.admitBy(ctx, p, settled)
		if err == nil {
			err = d.admitInterfacesBy(ctx, p, settled)
		}
		if err != nil {
			return nil, watch.Fail(deviceReason(err), err)
		}
	}
	spec, err := d.host.spec(ctx, p, d.cfg.Hook, settled)
	watch.Lap(metrics.PhaseSpec)
	if err != nil {
		return nil, watch.Fail(deviceReason(err), err)
	}
	if err = d.claims.Claim(ctx, p); err == nil {
		err = d.writeMetadata(p)
	}
	watch.Lap(metrics.PhaseRecord)
	if err != nil {
		return nil, watch.Fail(recordReason(err), err)
	}
	_, err = d.cfg.specs().Write(specName(p.UID), spec, cdi.JSON)
	watch.Lap(metrics.PhaseWrite)
	if err != nil {
		return nil, watch.Fail(metrics.ReasonCDI, fmt.Errorf("claim %s: %w; the driver needs a writable CDI directory with free space on the node", p.Claim(), err))
	}
	d.preparedNow(p)
	d.note("Prepared", p.Claim(), "UID %s: %s", p.UID, strings.Join(p.HCAs(), ", "))
	d.statuses.prepared(claim, d.cfg.NodeName)
	return prepared(p), nil
}

func (d *Driver) unlock(uid types.UID) {
	_ = d.atWork.UnlockKey(string(uid)) // it has no way to fail
}

// specName is the base name of a claim's CDI spec.
func specName(uid types.UID) string { return cdi.SpecName(cdi.KindClaim, string(uid)) }

// prepared tells the kubelet what a plan became: one CDI device for each
// request's device, so that a container gets only what it names.
func prepared(p *plan.Plan) []kubeletplugin.Device {
	var devices []kubeletplugin.Device
	for _, dev := range p.Devices {
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{dev.Request},
			PoolName:     dev.Pool,
			DeviceName:   dev.Device,
			ShareID:      dev.ShareID,
			CDIDeviceIDs: []string{p.CDIDevice(dev)},
		})
	}
	return devices
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		watch := d.cfg.Metrics.Start(metrics.Unprepare)
		err := d.forget(claim.UID)
		if err == nil {
			d.note("Unprepared", claim.Namespace+"/"+claim.Name, "UID %s", claim.UID)
		} else {
			d.tell(notice{Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID, Event: UnprepareFailed, Note: err.Error(), Pods: true})
		}
		results[claim.UID] = watch.Fail(metrics.ReasonRecord, err)
		watch.Whole(metrics.PhaseClaim)
		d.statuses.forget(claim.UID)
	}
	d.endedNow()
	return results, nil
}

// forget ends a claim, known or not. The record goes first: a spec without a
// record is removed within minutes (restoreInterval), while a record without a spec would bring
// the spec back.
func (d *Driver) forget(uid types.UID) error {
	d.atWork.LockKey(string(uid))
	defer d.unlock(uid)
	if err := d.claims.Remove(uid); err != nil {
		return err
	}
	return d.removeFiles(uid)
}

// removeFiles removes what a claim has besides its record.
func (d *Driver) removeFiles(uid types.UID) error {
	if _, err := d.cfg.specs().Remove(specName(uid)); err != nil {
		return err
	}
	return d.claims.RemoveMetadata(uid)
}

// staleAge is the age from which a file in the making has no writer any more.
const staleAge = time.Minute

// restore writes the specs of prepared claims that are missing or no longer fit
// the host, and removes specs that no record explains and what killed drivers left
// half written.
func (d *Driver) restore(ctx context.Context) error {
	// Specs are listed first: a record is always older than its spec, so a spec
	// listed now whose record is not found later is rubbish.
	ids, errIDs := d.cfg.specs().IDs(cdi.KindClaim)
	plans, errPlans := d.claims.List()
	errs := []error{errIDs, errPlans, atomicfile.Sweep(d.cfg.CDIDir, staleAge)}
	for _, p := range plans {
		errs = append(errs, d.restoreClaim(ctx, p))
	}
	for _, id := range ids {
		errs = append(errs, d.removeRubbish(ctx, types.UID(id)))
	}
	errs = append(errs, d.claims.SweepMetadata(plans))
	err := errors.Join(errs...)
	d.unfit.Store(err != nil)
	return err
}

// restoreClaim writes the spec of one prepared claim, if it is not as it should be.
// One that cannot be made now is removed, as what it says may be another HCA's by
// now: a container fails to start rather than with the wrong device. The record
// stays, and with the device the spec comes back.
func (d *Driver) restoreClaim(ctx context.Context, p *plan.Plan) error {
	// Without a wait: what settles later is found by the next look at the host.
	spec, err := d.host.spec(ctx, p, d.cfg.Hook, time.Now())
	if err != nil {
		_, removeErr := d.cfg.specs().Remove(specName(p.UID))
		return fmt.Errorf("restore CDI spec: %w", errors.Join(err, removeErr))
	}
	if err := d.writeMetadata(p); err != nil {
		return fmt.Errorf("restore files of a claim: %w", err)
	}
	changed, err := d.cfg.specs().Write(specName(p.UID), spec, cdi.JSON)
	if err != nil {
		return fmt.Errorf("restore CDI spec of claim %s: %w", p.Claim(), err)
	}
	if changed {
		klog.FromContext(ctx).Info("Restored the CDI spec of a prepared claim", "claim", p.Claim(), "uid", p.UID)
	}
	// The claim may have ended since its record was read.
	return d.removeRubbish(ctx, p.UID)
}

// removeRubbish removes a claim's spec if there is no record of the claim. An
// unreadable record is a record.
func (d *Driver) removeRubbish(ctx context.Context, uid types.UID) error {
	p, err := d.claims.Get(uid)
	if p != nil || err != nil {
		return err
	}
	removed, err := d.cfg.specs().Remove(specName(uid))
	if removed {
		klog.FromContext(ctx).Info("Removed the CDI spec of a claim that is not prepared", "uid", uid)
	}
	return err
}
