package claims

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

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// settleTime is the longest wait of one call for missing devices. A kernel driver takes about as long to reload. The
// kubelet repeats a failed call only after a minute.
const settleTime = 3 * time.Second

// Prepare prepares claims. A failed claim does not affect the others. Prepare is idempotent, and may run concurrently
// with itself, in this process and in another.
func (c *Claims) Prepare(
	ctx context.Context, claims []*resourceapi.ResourceClaim,
) map[types.UID]kubeletplugin.PrepareResult {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	// All claims of a call share the wait, because the kubelet's time limit for the whole call is 45 s.
	settled := time.Now().Add(settleTime)
	related := c.Reservations.learnOfNewClaims(ctx, claims)
	for _, claim := range claims {
		devices, err := c.prepareAfter(ctx, claim, settled, related)
		if err != nil {
			err = plan.Bounded(err)
			klog.FromContext(ctx).Error(err, "Claim not prepared", "claim", klog.KObj(claim), "uid", claim.UID)
			// The kubelet writes the event of the pod.
			c.cfg.Report.Record(event.Event{
				Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID,
				Reason: event.PrepareFailed, Message: err.Error(),
			})
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results
}

// prepareAfter prepares a claim. Other claims, or an earlier allocation of the same claim, may hold its HCAs.
// prepareAfter releases the holders that no pod can use any more, and retries. It never holds the locks of two claims
// at once.
func (c *Claims) prepareAfter(
	ctx context.Context, claim *resourceapi.ResourceClaim, settled time.Time, related relatedClaims,
) ([]kubeletplugin.Device, error) {
	kubelet := c.askKubelet(ctx)
	for {
		devices, err := c.prepare(ctx, claim, settled, related)
		var conflict plan.InUseError
		if !errors.As(err, &conflict) {
			return devices, err
		}
		e, released, releaseErr := c.Orphans.release(ctx, conflict.Holder.UID, claim, kubelet)
		switch {
		case releaseErr != nil:
			return nil, fmt.Errorf("%w (whether that claim can go is not known: %w)", err, releaseErr)
		case released:
			continue // with the next conflict
		case e.usage() == inUse:
			return nil, err
		default:
			why := e.why(c.cfg.Store.RecordPath(conflict.Holder.UID))
			return nil, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, conflict.Because(why))
		}
	}
}

// prepare prepares one claim. If the host is in the middle of a change, it waits, at most until settled.
func (c *Claims) prepare(
	ctx context.Context, claim *resourceapi.ResourceClaim, settled time.Time, related relatedClaims,
) ([]kubeletplugin.Device, error) {
	watch := c.cfg.Metrics.Start(metrics.Prepare)
	defer watch.Whole(metrics.PhaseClaim)
	var p *plan.Plan
	again := false
	err := c.cfg.Node.Settle(ctx, settled, func() (err error) {
		if again {
			watch.Lap(metrics.PhaseSpec) // the wait while the host changes
		}
		again = true
		p, err = c.tryPrepare(ctx, claim, related, &watch)
		return err
	})
	if err != nil {
		return nil, watch.Fail(reasonOf(err), err)
	}
	c.cfg.Offer.Prepared(p)
	c.cfg.Report.Note("Prepared", p.Claim(), "UID %s: %s", p.UID, strings.Join(p.HCAs(), ", "))
	c.cfg.Report.Prepared(claim)
	return prepared(p), nil
}

// tryPrepare prepares a claim on the host as it is now. It holds the lock of the claim meanwhile.
func (c *Claims) tryPrepare(
	ctx context.Context, claim *resourceapi.ResourceClaim, related relatedClaims, watch *metrics.Watch,
) (*plan.Plan, error) {
	release, err := c.cfg.Store.LockClaim(ctx, claim.UID)
	if err != nil { // the claim may have ended while this call waited
		reason := metrics.ReasonRecord
		if ctx.Err() != nil {
			reason, err = metrics.ReasonGaveUp, fmt.Errorf("the kubelet gave up on this call: %w", err)
		}
		return nil, because(reason, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err))
	}
	defer release()
	watch.Lap(metrics.PhaseWait)
	host := c.cfg.Node.Host() // not older than what somebody else made the spec from
	p, err := c.planOf(ctx, host, claim, related)
	watch.Lap(metrics.PhasePlan)
	if err != nil {
		return nil, err
	}
	spec, err := c.makeSpec(host, p)
	watch.Lap(metrics.PhaseSpec)
	if err != nil {
		return nil, err
	}
	if err = spec.errFiles; err == nil {
		p.Bytes, err = spec.sizes(p)
	}
	if err == nil {
		err = c.cfg.Store.Claim(ctx, p)
	}
	watch.Lap(metrics.PhaseRecord)
	if err != nil {
		return nil, because(metrics.ReasonRecord, err)
	}
	_, err = c.writeSpec(host, p, spec)
	watch.Lap(metrics.PhaseWrite)
	return p, err
}

// planOf makes the plan of a claim. It returns an error for a new claim if the host lacks one of its devices.
func (c *Claims) planOf(
	ctx context.Context, host *node.Host, claim *resourceapi.ResourceClaim, related relatedClaims,
) (*plan.Plan, error) {
	made, err := c.cfg.Store.Get(claim.UID)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Record of a claim is made again", "claim", klog.KObj(claim), "uid", claim.UID)
	}
	if made != nil && !made.IsOf(claim) { // pods of that allocation may still run: see prepareAfter
		return nil, fmt.Errorf("claim %s: %w", made.Claim(), made.Earlier())
	}
	p, err := plan.New(claim, c.facts(ctx, host, claim, made, related))
	switch {
	case err != nil:
		return nil, because(metrics.ReasonParameters, err)
	case made != nil:
		// The claim may have been read before one of its pods was created. It keeps its devices even if the mode has
		// changed meanwhile, because its pod may use the host's network.
		return p.WithPods(made.Pods...), nil
	case p.HasNetwork() && related.incomplete != nil:
		err := fmt.Errorf("claim %s: name its network interfaces: %w", p.Claim(), related.incomplete)
		return nil, because(metrics.ReasonAPI, err)
	}
	if err := c.cfg.Node.Moves.Admit(host, p); err != nil {
		return nil, err
	}
	if c.pods == nil {
		return p, nil
	}
	return p, c.pods.Admit(host, p)
}

// facts returns the data of this node for the plan of a claim. made is the plan of an earlier Prepare, nil for none.
func (c *Claims) facts(
	ctx context.Context, host *node.Host, claim *resourceapi.ResourceClaim, made *plan.Plan, related relatedClaims,
) plan.Facts {
	facts := c.cfg.Offer.Facts(ctx, host, claim)
	facts.FilesDir = c.cfg.Store.Metadata().Dir
	if c.cfg.DeviceMetadata {
		facts.MetadataDir = facts.FilesDir
	}
	switch {
	case !c.cfg.Interfaces:
		facts.Networks = nil
	case made == nil:
		facts.Networks.Others = c.Reservations.othersOf(ctx, claim, related)
	}
	return facts.WithPrepared(made)
}

// prepared returns the devices of a plan for the kubelet. Each device of a request is one CDI device, so that a
// container gets only the requests that it names.
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

// Unprepare ends claims. It is idempotent, and may run concurrently with itself.
func (c *Claims) Unprepare(ctx context.Context, claims []kubeletplugin.NamespacedObject) map[types.UID]error {
	results := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		watch := c.cfg.Metrics.Start(metrics.Unprepare)
		err := c.forget(ctx, claim.UID)
		if err == nil {
			c.cfg.Report.Note("Unprepared", claim.Namespace+"/"+claim.Name, "UID %s", claim.UID)
		} else {
			c.cfg.Report.Record(event.Event{
				Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID,
				Reason: event.UnprepareFailed, Message: err.Error(), Pods: true,
			})
		}
		results[claim.UID] = watch.Fail(metrics.ReasonRecord, err)
		watch.Whole(metrics.PhaseClaim)
		c.cfg.Report.Ended(claim.UID)
	}
	c.cfg.Offer.Ended()
	return results
}

// forget removes the record and the files of a claim, if it has any. It is idempotent. The record goes first. A spec
// without a record is removed within minutes (restoreInterval), but a record without a spec would restore the spec.
func (c *Claims) forget(ctx context.Context, uid types.UID) error {
	release, err := c.cfg.Store.LockClaim(ctx, uid)
	if err != nil {
		return err
	}
	defer release()
	if err := c.cfg.Store.Remove(uid); err != nil {
		return err
	}
	return c.removeFiles(uid)
}

// refusal is an error with its reason for the metrics.
type refusal struct {
	error
	reason metrics.Reason
}

func (r *refusal) Unwrap() error { return r.error }

func because(reason metrics.Reason, err error) error { return &refusal{err, reason} }

// reasonOf returns the reason of an error for the metrics. Without a more exact one, it is a device of the host.
func reasonOf(err error) metrics.Reason {
	if _, ok := errors.AsType[plan.InUseError](err); ok {
		return metrics.ReasonInUse
	}
	if _, ok := errors.AsType[plan.TooMuchError](err); ok {
		return metrics.ReasonParameters
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused.reason
	}
	if errors.Is(err, node.ErrExclusive) {
		return metrics.ReasonNetns
	}
	return metrics.ReasonDevice
}
