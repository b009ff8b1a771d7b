package dra

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	applyresource "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// The waits between two tries to write a claim's status.
const (
	statusRetryMin = time.Second
	statusRetryMax = 5 * time.Minute
	statusSettles  = time.Second
)

// errChanged is that somebody else wrote a claim between reading and writing.
var errChanged = errors.New("it was changed meanwhile")

// statuses, unless it is nil, writes into the status of prepared claims by which names the node has
// their HCAs. It is out of the way of Prepare: it waits for calls of the kubelet in progress, and
// a status that cannot be written fails nothing. Entries need no removal: they go when the claim is deallocated.
// Requests are of the budget, but for those of a pod that starts: the kubelet sends more of them for each pod.
type statuses struct {
	queue   workqueue.TypedDelayingInterface[types.UID]
	retries workqueue.TypedRateLimiter[types.UID]
	budget  *budget.Budget
	clock   clock.PassiveClock

	mu      sync.Mutex
	said    map[types.UID][]resourceapi.AllocatedDeviceStatus // what the API server has
	starts  map[types.UID]bool                                // a pod of the claim starts: its next try is at once
	turns   map[types.UID]time.Time                           // when a claim may have its next request
	refused bool
}

// everyClaim stands in the queue for all prepared claims.
const everyClaim types.UID = ""

func newStatuses(wanted bool, b *budget.Budget, c clock.WithTicker) *statuses {
	if !wanted {
		return nil
	}
	return &statuses{
		queue:   workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{Clock: c}),
		retries: jittering{workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](statusRetryMin, statusRetryMax)},
		budget:  b, clock: c,
		said:   map[types.UID][]resourceapi.AllocatedDeviceStatus{},
		starts: map[types.UID]bool{},
		turns:  map[types.UID]time.Time{},
	}
}

// jittering adds jitter to each wait.
type jittering struct {
	workqueue.TypedRateLimiter[types.UID]
}

func (j jittering) When(uid types.UID) time.Duration {
	return jitter(j.TypedRateLimiter.When(uid))
}

// prepared has the status of a claim written that was just prepared.
func (s *statuses) prepared(claim *resourceapi.ResourceClaim, pool string) {
	if s == nil {
		return
	}
	s.remember(claim.UID, ours(claim.Status.Devices, pool))
	s.start(claim.UID, 0)
}

// all has the status of all claims looked at: the host has changed.
func (s *statuses) all() {
	if s != nil {
		s.queue.Add(everyClaim)
	}
}

// later has the status of a claim looked at when a container of it has just begun: the
// kernel makes the GIDs of its interface in the background, a moment after the address.
func (s *statuses) later(uid types.UID) {
	if s != nil {
		s.start(uid, statusSettles)
	}
}

func (s *statuses) start(uid types.UID, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts[uid] = true
	s.queue.AddAfter(uid, wait)
}

// started reports whether a pod of the claim starts, once. Such a claim needs no turn.
func (s *statuses) started(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	starts := s.starts[uid]
	if starts {
		s.dropTurn(uid)
	}
	delete(s.starts, uid)
	return starts
}

func (s *statuses) remember(uid types.UID, said []resourceapi.AllocatedDeviceStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said[uid] = said
}

func (s *statuses) recall(uid types.UID) ([]resourceapi.AllocatedDeviceStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said, ok := s.said[uid]
	return said, ok
}

func (s *statuses) forget(uid types.UID) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.said, uid)
	delete(s.starts, uid)
	s.dropTurn(uid)
}

// dropTurn takes its turn from a claim, and gives one that has not come yet back. Its caller has mu.
func (s *statuses) dropTurn(uid types.UID) {
	if at, waits := s.turns[uid]; waits && s.clock.Now().Before(at) {
		s.budget.GiveBack()
	}
	delete(s.turns, uid)
}

// admit reports whether a request for a claim may go now. If not, the claim comes again in its turn.
func (s *statuses) admit(uid types.UID, atOnce bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if at, waits := s.turns[uid]; waits {
		if now.Before(at) { // a turn that the claim had before, which the queue knows still
			s.queue.AddAfter(uid, at.Sub(now))
			return false
		}
		delete(s.turns, uid)
		return true
	}
	if atOnce && s.budget.Take(1) {
		return true
	}
	s.turnIn(uid, s.budget.Turn())
	return false
}

// costOfStatus is how many requests the status of a claim takes at most: a PATCH, and where that is refused a GET and a PUT.
const costOfStatus = 3

// spread gives claims whose status differs for one cause their turns: at once if the budget has room for all of them.
func (s *statuses) spread(claims []types.UID, atOnce bool) {
	atOnce = atOnce && s.budget.Take(costOfStatus*len(claims))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range claims {
		if _, waits := s.turns[uid]; waits {
			continue
		}
		if atOnce {
			s.turnIn(uid, 0)
		} else {
			s.turnIn(uid, s.budget.Turn())
		}
	}
}

// again has a claim tried again that failed.
func (s *statuses) again(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turnIn(uid, s.retries.When(uid)+s.budget.Turn())
}

// turnIn gives a claim a turn. Its caller has mu.
func (s *statuses) turnIn(uid types.UID, wait time.Duration) {
	s.turns[uid] = s.clock.Now().Add(wait)
	s.queue.AddAfter(uid, wait)
}

// statusLoop writes the status of claims until ctx ends.
func (d *Driver) statusLoop(ctx context.Context) {
	s := d.statuses
	if s == nil {
		return
	}
	context.AfterFunc(ctx, s.queue.ShutDown)
	s.all()
	for {
		uid, over := s.queue.Get()
		if over {
			return
		}
		d.calls.yield(ctx)
		if uid == everyClaim {
			d.compareStatuses(ctx)
		} else if err := d.writeStatus(ctx, uid); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Status of a claim not written, trying again", "uid", uid, "reason", err.Error())
			s.again(uid)
		} else {
			s.retries.Forget(uid)
		}
		s.queue.Done(uid)
	}
}

// compareStatuses gives a turn to the claims whose status is not as it should be. What the API server has of those of an earlier
// driver is not known: as the drivers of all nodes may have started at once, they are not asked for at once.
func (d *Driver) compareStatuses(ctx context.Context) {
	var differ, unknown []types.UID
	for _, p := range d.plans(ctx) {
		said, known := d.statuses.recall(p.UID)
		if !known {
			unknown = append(unknown, p.UID)
		} else if want, err := d.wantedStatus(p, said); err == nil && !sameStatus(want, said) {
			differ = append(differ, p.UID)
		}
	}
	d.statuses.spread(differ, true)
	d.statuses.spread(unknown, false)
}

// wantedStatus is what the status of a claim should say.
func (d *Driver) wantedStatus(p *plan.Plan, said []resourceapi.AllocatedDeviceStatus) ([]resourceapi.AllocatedDeviceStatus, error) {
	return deviceStatus(p, d.host.snapshot(), addresses{d.host.sys}, d.attachedTo, said, metav1.Now().Rfc3339Copy())
}

// writeStatus writes the status of a claim unless it is there, if it may have a request now. It returns an error
// if it is worth another try, which waits for its turn.
func (d *Driver) writeStatus(ctx context.Context, uid types.UID) error {
	p, err := d.claims.Get(uid)
	if err != nil || p == nil {
		d.statuses.forget(uid)
		return nil // it has ended; an unreadable record is reported by others
	}
	starts := d.statuses.started(uid)
	said, known := d.statuses.recall(uid)
	if !known {
		if !starts && !d.statuses.admit(uid, false) {
			return nil
		}
		if said, known, err = d.saidOf(ctx, p); err != nil || !known {
			return err
		}
	}
	want, err := d.wantedStatus(p, said)
	if err != nil || sameStatus(want, said) || !starts && !d.statuses.admit(uid, true) {
		return err
	}
	claim, err := d.tellStatus(ctx, p, want)
	if err != nil {
		return d.statusError(ctx, p, err)
	}
	d.statuses.remember(uid, ours(claim.Status.Devices, d.cfg.NodeName))
	return nil
}

// tellStatus writes entries into the status of a claim, and returns the claim. Server-side apply takes one request
// and leaves alone what others write. But the API server encodes the whole claim anew for it, and
// refuses where that changes bytes which are not the driver's: parameters with spaces or with keys in no order, as Python
// writes them, or such data of another driver. Then the claim is written whole.
func (d *Driver) tellStatus(ctx context.Context, p *plan.Plan, want []resourceapi.AllocatedDeviceStatus) (*resourceapi.ResourceClaim, error) {
	claim, err := d.client.ResourceV1().ResourceClaims(p.Namespace).ApplyStatus(apiclient.Refusable(ctx), applyStatus(p, want),
		metav1.ApplyOptions{FieldManager: plan.DriverName, Force: true})
	if apierrors.IsInvalid(err) {
		return d.putStatus(ctx, p, want)
	}
	return claim, err
}

// putStatus reads a claim and writes it whole. Both is in protobuf, which has the bytes of JSON as they are, unlike
// JSON itself, from which Go takes the spaces. A claim that somebody else writes in between is left for another try.
func (d *Driver) putStatus(ctx context.Context, p *plan.Plan, want []resourceapi.AllocatedDeviceStatus) (*resourceapi.ResourceClaim, error) {
	claims := d.client.ResourceV1().ResourceClaims(p.Namespace)
	claim, err := claims.Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if claim.UID != p.UID {
		return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), p.Name)
	}
	claim.Status.Devices = merged(claim.Status.Devices, want)
	claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{FieldManager: plan.DriverName})
	if apierrors.IsConflict(err) {
		return nil, errChanged
	}
	return claim, err
}

// saidOf asks the API server what the status of a claim says already. A claim that is gone is
// not known.
func (d *Driver) saidOf(ctx context.Context, p *plan.Plan) (said []resourceapi.AllocatedDeviceStatus, known bool, err error) {
	claim, err := d.client.ResourceV1().ResourceClaims(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && claim.UID != p.UID {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get claim %s: %w", p.Claim(), err)
	}
	said = ours(claim.Status.Devices, d.cfg.NodeName)
	d.statuses.remember(p.UID, said)
	return said, true, nil
}

// statusError sorts errors of the API server: nil for those that stay.
func (d *Driver) statusError(ctx context.Context, p *plan.Plan, err error) error {
	logger := klog.FromContext(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the claim is gone, and another one may have its name
	case apierrors.IsForbidden(err):
		d.statuses.mu.Lock()
		known := d.statuses.refused
		d.statuses.refused = true
		d.statuses.mu.Unlock()
		if !known {
			logger.Error(err, "The driver may not write the status of claims: give it the rights of the chart, or set --claim-status=false")
		}
		return nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		logger.Error(err, "Status of a claim not written", "claim", p.Claim(), "uid", p.UID)
		return nil
	}
	return fmt.Errorf("write status of claim %s: %w", p.Claim(), err)
}

// applyStatus says what the driver wants in a claim's status. The UID keeps it from
// a new claim of the same name.
func applyStatus(p *plan.Plan, devices []resourceapi.AllocatedDeviceStatus) *applyresource.ResourceClaimApplyConfiguration {
	status := applyresource.ResourceClaimStatus()
	for _, d := range devices {
		one := applyresource.AllocatedDeviceStatus().WithDriver(d.Driver).WithPool(d.Pool).WithDevice(d.Device).WithData(*d.Data)
		one.ShareID = d.ShareID
		if n := d.NetworkData; n != nil {
			one.WithNetworkData(networkData(n))
		}
		for _, c := range d.Conditions {
			one.WithConditions(applymeta.Condition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).
				WithMessage(c.Message).WithLastTransitionTime(c.LastTransitionTime))
		}
		status.WithDevices(one)
	}
	return applyresource.ResourceClaim(p.Name, p.Namespace).WithUID(p.UID).WithStatus(status)
}

func networkData(n *resourceapi.NetworkDeviceData) *applyresource.NetworkDeviceDataApplyConfiguration {
	out := applyresource.NetworkDeviceData().WithInterfaceName(n.InterfaceName).WithIPs(n.IPs...)
	if n.HardwareAddress != "" {
		out.WithHardwareAddress(n.HardwareAddress)
	}
	return out
}
