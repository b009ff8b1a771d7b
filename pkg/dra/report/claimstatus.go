package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/answer"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// These are the shortest and the longest wait between two tries to write a claim's status, and the wait after a start
// of a container.
const (
	statusRetryMin = time.Second
	statusRetryMax = 5 * time.Minute
	statusSettles  = time.Second
)

// errConflict means that another client changed the claim between reading and writing.
var errConflict = errors.New("somebody else changed it meanwhile")

// ClaimStatus keeps the status of prepared claims up to date: the names that their HCAs have on the node (KEP-4817). It
// never delays Prepare, and a failed write has no other effect. It never removes entries: they end when the claim is
// deallocated. Requests count against the budget, except those for a pod that starts: the kubelet sends more requests
// for each pod than the driver.
//
// All methods are safe for concurrent use. A nil ClaimStatus writes nothing.
type ClaimStatus struct {
	cfg    Config
	turns  *turns
	checks *checks

	mu        sync.Mutex
	stored    map[types.UID][]entry // the entries that the API server has
	forbidden sync.Once             // the log says so
}

// The items of the queue that are no claims.
const (
	everyClaim  types.UID = ""       // all prepared claims
	storeChecks types.UID = "checks" // what the hook found goes to the next driver
)

// NewClaimStatus returns a ClaimStatus that writes nothing before Run.
func NewClaimStatus(cfg Config) *ClaimStatus {
	s := &ClaimStatus{
		cfg: cfg, turns: newTurns(cfg), checks: newChecks(cfg.Memory), stored: map[types.UID][]entry{},
	}
	s.checks.store = func() { s.turns.queue.AddAfter(storeChecks, checksBatch) }
	return s
}

// Prepared schedules the status of a claim that was just prepared, and returns at once. The claim is as the API server
// has it.
func (s *ClaimStatus) Prepared(claim *resourceapi.ResourceClaim) {
	if s == nil {
		return
	}
	s.remember(claim.UID, entriesOf(claim.Status.Devices, s.cfg.NodeName))
	s.turns.queueStart(claim.UID, 0)
}

// HostChanged schedules a comparison of the status of all claims with the host.
func (s *ClaimStatus) HostChanged() {
	if s != nil {
		s.turns.queue.Add(everyClaim)
	}
}

// HealthChanged schedules the status of the claims that hold HCAs of these transitions. The requests wait for their
// turns: the kubelet and events have told the pods, and the drivers of all nodes may see the same fault.
func (s *ClaimStatus) HealthChanged(transitions []health.Transition, plans []*plan.Plan) {
	if s == nil {
		return
	}
	concerned := func(t health.Transition, p *plan.Plan) bool {
		return t.Condition.Sick() && slices.Contains(p.HCAs(), t.Device)
	}
	var claims []types.UID
	for _, p := range plans {
		if slices.ContainsFunc(transitions, func(t health.Transition) bool { return concerned(t, p) }) {
			claims = append(claims, p.UID)
		}
	}
	s.turns.scheduleAll(claims, false)
}

// ServerRestored drops what the API server has, and schedules a comparison: after the restoration of a backup it may have
// an earlier status. The claims are read again within the budget.
func (s *ClaimStatus) ServerRestored() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.stored = map[types.UID][]entry{}
	s.mu.Unlock()
	s.HostChanged()
}

// ContainerStarted schedules a comparison of the status of a claim after the start of one of its containers. It waits
// for the kernel, which adds the GIDs of an interface in the background, shortly after the address.
func (s *ClaimStatus) ContainerStarted(uid types.UID) {
	if s != nil {
		s.turns.queueStart(uid, statusSettles)
	}
}

// Ended drops the state of a claim that has ended.
func (s *ClaimStatus) Ended(uid types.UID) {
	if s == nil {
		return
	}
	s.checks.end(uid)
	s.turns.end(uid)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, uid)
}

func (s *ClaimStatus) remember(uid types.UID, stored []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[uid] = stored
}

func (s *ClaimStatus) recall(uid types.UID) ([]entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.stored[uid]
	return stored, ok
}

// Run writes the status of claims until ctx ends.
func (s *ClaimStatus) Run(ctx context.Context) {
	if s == nil {
		return
	}
	context.AfterFunc(ctx, s.turns.queue.ShutDown)
	s.checks.only(s.cfg.Node.View(ctx).Plans)
	s.HostChanged()
	for {
		uid, over := s.turns.queue.Get()
		if over {
			s.checks.remember()
			return
		}
		s.cfg.Yield(ctx)
		if uid == everyClaim {
			s.compareAll(ctx)
		} else if uid == storeChecks {
			s.checks.remember()
		} else if err := s.write(ctx, uid); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Status of a claim not written, trying again", "uid", uid, "reason", err.Error())
			s.turns.retry(uid)
		} else {
			s.turns.retries.Forget(uid)
		}
		s.turns.queue.Done(uid)
	}
}

// compareAll schedules the claims whose status is wrong or unknown. The status of claims that an earlier driver
// prepared is unknown. It is never read at once, because the drivers of all nodes may have started together.
func (s *ClaimStatus) compareAll(ctx context.Context) {
	var differ, unknown []types.UID
	for _, p := range s.cfg.Node.View(ctx).Plans {
		stored, known := s.recall(p.UID)
		if !known {
			unknown = append(unknown, p.UID)
		} else if want, err := s.wanted(p, stored); err == nil && !sameEntries(want, stored) {
			differ = append(differ, p.UID)
		}
	}
	s.turns.scheduleAll(differ, true)
	s.turns.scheduleAll(unknown, false)
}

// wanted returns the entries that the status of a claim should have.
func (s *ClaimStatus) wanted(p *plan.Plan, stored []entry) ([]entry, error) {
	host, judged, now := s.cfg.Node.Host(), s.cfg.Node.Judged(), metav1.NewTime(s.cfg.Clock.Now()).Rfc3339Copy()
	return entriesFor(p, host, judged, s.cfg.Attached, s.checks.claim(p.UID), stored, now)
}

// write writes the status of a claim unless it is right already, if a request may be sent now. After an error the
// caller retries.
func (s *ClaimStatus) write(ctx context.Context, uid types.UID) error {
	p, err := s.cfg.Node.Plan(uid)
	if err != nil || p == nil {
		s.Ended(uid)
		return nil // a record that cannot be read is reported elsewhere
	}
	starts := s.turns.takeStart(uid)
	stored, known := s.recall(uid)
	if !known {
		if !starts && !s.turns.admit(uid, false) {
			return nil
		}
		if stored, known, err = s.get(ctx, p); err != nil || !known {
			return err
		}
	}
	want, err := s.wanted(p, stored)
	if err != nil || sameEntries(want, stored) || !starts && !s.turns.admit(uid, true) {
		return err
	}
	claim, err := s.apply(ctx, p, want)
	if err == nil {
		err = answer.About(claim, p.Namespace, p.Name)
	}
	if err != nil {
		return s.worthRetry(ctx, p, err)
	}
	s.remember(uid, entriesOf(claim.Status.Devices, s.cfg.NodeName))
	return nil
}

// apply writes entries into the status of a claim by server-side apply, and returns the claim. This takes one request
// and keeps the entries of other writers. But the API server then encodes the whole claim again, and refuses if that
// changes bytes of other writers. Examples are parameters with spaces or unsorted keys, as Python writes them, and such
// data of another driver. In this case apply writes the whole claim.
func (s *ClaimStatus) apply(ctx context.Context, p *plan.Plan, want []entry) (*resourceapi.ResourceClaim, error) {
	patch, err := json.Marshal(map[string]any{
		"apiVersion": resourceapi.SchemeGroupVersion.String(), "kind": "ResourceClaim",
		// The UID prevents a write to a new claim of the same name.
		"metadata": map[string]any{"name": p.Name, "namespace": p.Namespace, "uid": p.UID},
		"status":   map[string]any{"devices": want},
	})
	if err != nil {
		return nil, err
	}
	claims := s.cfg.Client.ResourceV1().ResourceClaims(p.Namespace)
	claim, err := claims.Patch(apiclient.Refusable(ctx), p.Name, types.ApplyYAMLPatchType, patch,
		metav1.PatchOptions{FieldManager: rdma.Domain, Force: new(true)}, "status")
	if apierrors.IsInvalid(err) {
		return s.update(ctx, p, want)
	}
	return claim, err
}

// update reads a claim and writes all of it. Both requests use protobuf, which keeps the bytes of JSON; the JSON
// encoding of Go would lose its spaces. If another client writes the claim in between, update returns errConflict.
func (s *ClaimStatus) update(ctx context.Context, p *plan.Plan, want []entry) (*resourceapi.ResourceClaim, error) {
	claim, err := getClaim(ctx, s.cfg.Client, p.Namespace, p.Name, p.UID)
	if err != nil {
		return nil, err
	}
	if claim == nil {
		return nil, apierrors.NewNotFound(claimResource, p.Name)
	}
	claim.Status.Devices = merged(claim.Status.Devices, want)
	claims := s.cfg.Client.ResourceV1().ResourceClaims(p.Namespace)
	claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{FieldManager: rdma.Domain})
	if answer.Said(err, metav1.StatusReasonConflict, claimResource, p.Name) {
		return nil, errConflict
	}
	return claim, err
}

// get reads the entries in the status of a claim. For a claim that no longer exists they are unknown.
func (s *ClaimStatus) get(ctx context.Context, p *plan.Plan) (stored []entry, known bool, err error) {
	claim, err := getClaim(ctx, s.cfg.Client, p.Namespace, p.Name, p.UID)
	if err != nil || claim == nil {
		return nil, false, err
	}
	stored = entriesOf(claim.Status.Devices, s.cfg.NodeName)
	s.remember(p.UID, stored)
	return stored, true, nil
}

// worthRetry returns an error of the API server that may be temporary. It logs any other error and returns nil.
func (s *ClaimStatus) worthRetry(ctx context.Context, p *plan.Plan, err error) error {
	logger := klog.FromContext(ctx)
	said := func(reason metav1.StatusReason) bool { return answer.Said(err, reason, claimResource, p.Name) }
	switch {
	case said(metav1.StatusReasonNotFound), said(metav1.StatusReasonConflict):
		return nil // the claim has ended, and another one may have its name
	case said(metav1.StatusReasonForbidden):
		s.forbidden.Do(func() {
			logger.Error(err, "The driver may not write the status of claims: "+
				"give it the rights of the chart, or set --claim-status=false")
		})
		return nil
	case answer.Answered(err) && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
		logger.Error(err, "Status of a claim not written", "claim", p.Claim(), "uid", p.UID)
		return nil
	}
	return fmt.Errorf("write status of claim %s: %w", p.Claim(), err)
}

var claimResource = resourceapi.Resource("resourceclaims")

// getClaim returns the claim with a UID. It returns nil if the API server says that this claim no longer exists, or if
// another one has its name now.
func getClaim(
	ctx context.Context, client kubernetes.Interface, namespace, name string, uid types.UID,
) (*resourceapi.ResourceClaim, error) {
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = answer.About(claim, namespace, name)
	}
	switch {
	case answer.Gone(err, claimResource, name):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get claim %s/%s: %w", namespace, name, err)
	case claim.UID != uid:
		return nil, nil
	}
	return claim, nil
}
