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

// PrepareResourceClaims implements kubeletplugin.DRAPlugin. Each claim stands for
// itself: one that fails does not hold up the others. It is idempotent, and safe
// to run at the same time as itself, in this process and in another.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	// The kubelet gives up on the whole call after 45 s, so its claims share the wait.
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
			d.recorder.Record(report.Event{Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID, Reason: report.PrepareFailed, Message: err.Error()})
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// How long a call waits for devices that are not there: a driver reload takes
// the kernel about that long, and the kubelet comes back only after a minute.
const (
	settleTime = 3 * time.Second
	settleStep = 50 * time.Millisecond // the first wait; each is twice the one before
)

// prepare prepares one claim. It waits until then for a host in the middle of a change. Unsure, unless it is nil, is
// why other claims of its pods may not be known.
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

// refusal is why a claim is not prepared now.
type refusal struct {
	error
	reason metrics.Reason
	passes bool // the kernel may be in the middle of a change: it is worth another look at the host
}

func (r *refusal) Unwrap() error { return r.error }

// tryPrepare prepares a claim by what the host is like now. It has the lock of the claim meanwhile, but waits for no
// change of the host: whoever restores specs waits for the lock.
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

// planOf makes the plan of a claim, and checks that the host can give what a new one asks for.
func (d *Driver) planOf(ctx context.Context, claim *resourceapi.ResourceClaim, unsure error, watch *metrics.Watch) (*plan.Plan, *refusal) {
	made, err := d.claims.Get(claim.UID)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Record of a claim is made anew", "claim", klog.KObj(claim), "uid", claim.UID)
	}
	if made != nil && !made.IsOf(claim) { // pods of that allocation may run: prepareAfter looks into it
		return nil, &refusal{fmt.Errorf("claim %s: %w", made.Claim(), made.Earlier()), metrics.ReasonInUse, false}
	}
	p, err := plan.New(claim, d.node(ctx).As(made))
	watch.Lap(metrics.PhasePlan)
	switch {
	case err != nil:
		return nil, &refusal{err, metrics.ReasonParameters, false}
	case made != nil:
		// The claim may have been read before one of its pods came. And it keeps its devices from before the mode
		// changed: its pod may have the host's network.
		return p.WithPods(made.Pods...), nil
	case p.HasNetwork() && unsure != nil:
		return nil, &refusal{fmt.Errorf("claim %s: name its network interfaces: %w", p.Claim(), unsure), metrics.ReasonAPI, false}
	}
	if err := d.host.admit(p); err != nil {
		return nil, &refusal{err, deviceReason(err), errors.Is(err, errElsewhere)} // it may be on its way back from a pod
	}
	if err := d.admitInterfaces(p); err != nil {
		// It may be on its way back too, or the kernel's events have not told of it yet.
		return nil, &refusal{err, deviceReason(err), errors.Is(err, attach.ErrAway) || errors.Is(err, podnet.ErrNoInterface)}
	}
	return p, nil
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
func (d *Driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		watch := d.cfg.Metrics.Start(metrics.Unprepare)
		err := d.forget(ctx, claim.UID)
		if err == nil {
			d.recorder.Note("Unprepared", claim.Namespace+"/"+claim.Name, "UID %s", claim.UID)
		} else {
			d.recorder.Record(report.Event{Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID, Reason: report.UnprepareFailed, Message: err.Error(), Pods: true})
		}
		results[claim.UID] = watch.Fail(metrics.ReasonRecord, err)
		watch.Whole(metrics.PhaseClaim)
		d.claimStatus.Ended(claim.UID)
	}
	d.endedNow()
	return results, nil
}

// forget ends a claim, known or not. The record goes first: a spec without a
// record is removed within minutes (restoreInterval), while a record without a spec would bring
// the spec back.
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
