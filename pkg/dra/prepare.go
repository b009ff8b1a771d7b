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

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/attach"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
)

// PrepareResourceClaims implements kubeletplugin.DRAPlugin. A claim that fails does not affect the others. It is
// idempotent, and may run concurrently with itself, in this process and in another.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	// The kubelet's time limit for the whole call is 45 s, so its claims share the wait.
	settled := time.Now().Add(settleTime)
	unsure := d.learnOfNewClaims(ctx, claims)
	for _, claim := range claims {
		devices, err := d.prepareAfter(ctx, claim, func() ([]kubeletplugin.Device, error) {
			return d.prepare(ctx, claim, settled, unsure)
		})
		if err != nil {
			err = plan.Bounded(err)
			klog.FromContext(ctx).Error(err, "Claim not prepared", "claim", klog.KObj(claim), "uid", claim.UID)
			// The kubelet tells the pod.
			d.recorder.Record(report.Event{
				Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID,
				Reason: report.PrepareFailed, Message: err.Error(),
			})
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// settleTime is how long a call waits for devices that are missing. Reloading a kernel driver takes about as long, and
// the kubelet repeats the call only after a minute.
const (
	settleTime = 3 * time.Second
	settleStep = 50 * time.Millisecond // the first wait; each is twice the one before
)

// prepare prepares one claim. If the host is in the middle of a change, it waits, at most until settled. If unsure is
// not nil, it is the reason why other claims of the pods may be unknown.
func (d *Driver) prepare(ctx context.Context, claim *resourceapi.ResourceClaim, settled time.Time, unsure error) ([]kubeletplugin.Device, error) {
	watch := d.cfg.Metrics.Start(metrics.Prepare)
	defer watch.Whole(metrics.PhaseClaim)
	for wait := settleStep; ; wait *= 2 {
		p, refused := d.tryPrepare(ctx, claim, unsure, &watch)
		if refused == nil {
			d.preparedNow(p)
			d.recorder.Note("Prepared", p.Claim(), "UID %s: %s", p.UID, strings.Join(p.HCAs(), ", "))
			d.claimStatus.Prepared(claim)
			return prepared(p), nil
		}
		if !refused.passes || time.Now().After(settled) || !sleep(ctx, wait) {
			return nil, watch.Fail(refused.reason, refused)
		}
		if _, err := d.host.rescan(); err != nil {
			return nil, watch.Fail(deviceReason(err), err)
		}
	}
}

// refusal is the reason why a claim is not prepared now.
type refusal struct {
	error
	reason metrics.Reason
	passes bool // the kernel may be in the middle of a change: read the host again
}

func (r *refusal) Unwrap() error { return r.error }

// tryPrepare prepares a claim on the host as it is now. It holds the lock of the claim, and never waits for a change of
// the host: restoring specs needs the lock.
func (d *Driver) tryPrepare(ctx context.Context, claim *resourceapi.ResourceClaim, unsure error, watch *metrics.Watch) (*plan.Plan, *refusal) {
	release, err := d.claims.LockClaim(ctx, claim.UID)
	if err != nil { // the claim may have ended while this call waited
		reason := recordReason(err)
		if ctx.Err() != nil {
			reason, err = metrics.ReasonGaveUp, fmt.Errorf("the kubelet gave up on this call: %w", err)
		}
		return nil, &refusal{fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err), reason, false}
	}
	defer release()
	watch.Lap(metrics.PhaseWait)
	p, refused := d.planOf(ctx, claim, unsure, watch)
	if refused != nil {
		return nil, refused
	}
	spec, err := d.makeSpec(p)
	watch.Lap(metrics.PhaseSpec)
	if err != nil {
		return nil, &refusal{err, deviceReason(err), true}
	}
	if err := spec.errFiles; err != nil {
		return nil, &refusal{err, recordReason(err), false}
	}
	if p.Bytes, err = spec.sizes(p); err == nil {
		err = d.claims.Claim(ctx, p)
	}
	watch.Lap(metrics.PhaseRecord)
	if err != nil {
		return nil, &refusal{err, recordReason(err), false}
	}
	_, refused = d.writeSpec(p, spec)
	watch.Lap(metrics.PhaseWrite)
	return p, refused
}

// planOf makes the plan of a claim. It refuses a new claim if the host lacks one of its devices.
func (d *Driver) planOf(ctx context.Context, claim *resourceapi.ResourceClaim, unsure error, watch *metrics.Watch) (*plan.Plan, *refusal) {
	made, err := d.claims.Get(claim.UID)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Record of a claim is made anew", "claim", klog.KObj(claim), "uid", claim.UID)
	}
	if made != nil && !made.IsOf(claim) { // pods of that allocation may still run: see prepareAfter
		return nil, &refusal{fmt.Errorf("claim %s: %w", made.Claim(), made.Earlier()), metrics.ReasonInUse, false}
	}
	p, err := plan.New(claim, d.node(ctx).As(made))
	watch.Lap(metrics.PhasePlan)
	switch {
	case err != nil:
		return nil, &refusal{err, metrics.ReasonParameters, false}
	case made != nil:
		// The claim may have been read before one of its pods was created. It keeps its devices even if the mode has
		// changed since: its pod may use the host's network.
		return p.WithPods(made.Pods...), nil
	case p.HasNetwork() && unsure != nil:
		return nil, &refusal{fmt.Errorf("claim %s: name its network interfaces: %w", p.Claim(), unsure), metrics.ReasonAPI, false}
	}
	if err := d.host.admit(p); err != nil {
		return nil, &refusal{err, deviceReason(err), errors.Is(err, errElsewhere)} // a pod may be about to return it
	}
	if err := d.admitInterfaces(p); err != nil {
		// A pod may be about to return it too, or the kernel's event has not arrived yet.
		return nil, &refusal{err, deviceReason(err), errors.Is(err, attach.ErrAway) || errors.Is(err, podnet.ErrNoInterface)}
	}
	return p, nil
}

// specName is the base name of a claim's CDI spec.
func specName(uid types.UID) string { return cdi.SpecName(cdi.KindClaim, string(uid)) }

// prepared returns the devices of a plan for the kubelet: one CDI device for each device of a request, so that a
// container gets only what it names.
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
func (d *Driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		watch := d.cfg.Metrics.Start(metrics.Unprepare)
		err := d.forget(ctx, claim.UID)
		if err == nil {
			d.recorder.Note("Unprepared", claim.Namespace+"/"+claim.Name, "UID %s", claim.UID)
		} else {
			d.recorder.Record(report.Event{
				Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID,
				Reason: report.UnprepareFailed, Message: err.Error(), Pods: true,
			})
		}
		results[claim.UID] = watch.Fail(metrics.ReasonRecord, err)
		watch.Whole(metrics.PhaseClaim)
		d.claimStatus.Ended(claim.UID)
	}
	d.endedNow()
	return results, nil
}

// forget removes the record and the files of a claim, if it has any. The record goes first. A spec without a record is
// removed within minutes (restoreInterval), but a record without a spec would restore the spec.
func (d *Driver) forget(ctx context.Context, uid types.UID) error {
	release, err := d.claims.LockClaim(ctx, uid)
	if err != nil {
		return err
	}
	defer release()
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
