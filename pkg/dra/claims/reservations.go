package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Reservations records for which pods claims are reserved.
type Reservations struct{ *shared }

// Pod is a pod of the node.
type Pod struct {
	Namespace string
	// Name is "" for a pod that may have no sandbox yet. Until the kubelet makes the sandbox, it may refuse the pod its
	// claims, so such a pod is of no PodGroup.
	Name string
	UID  types.UID
}

// The kubelet prepares a claim once, for the first of the pods that share it. Only the API server knows the other pods:
// they are in the status of the claim. Only the kubelet knows the pods of a PodGroup: see podgroups.go.

// reservedTime is the time limit of the API server for the reservations of claims when a pod starts. It is at most half
// of the time that container runtimes give an NRI plugin.
const reservedTime = time.Second

// Patience is the time limit of API server and kubelet for the reservations of claims when nothing waits for the
// answer. It is longer than reservedTime, or pods of a kubelet that always takes longer would never get their devices.
const Patience = 10 * time.Second

// Soon returns a context for Learn while a pod starts.
func Soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, HalfOf(ctx, reservedTime))
}

// errUnsure means that a pod may share a claim, and the API server has not answered whether it does.
var errUnsure = errors.New("it is not known whether pods share a prepared claim")

// Learn asks the API server which prepared claims are reserved for the pods, and records the answer. It is
// idempotent. It sends one request for each claim that may concern the pods, concurrently and without a lock, and asks
// the kubelet once if one of these claims is reserved for a PodGroup. It returns the pods without a complete answer,
// and the reason. It waits for answers until ctx ends.
func (c *Reservations) Learn(
	ctx context.Context, pods []Pod, concerns func(*plan.Plan) bool,
) (unanswered []Pod, err error) {
	kubelet := c.askKubeletForHalf(ctx)
	var (
		mu   sync.Mutex
		errs []error
		all  sync.WaitGroup
	)
	for _, p := range c.cfg.Node.View(ctx).Plans {
		sharing := slices.DeleteFunc(slices.Clone(pods), func(pod Pod) bool { return !MayShare(p, pod) })
		if len(sharing) == 0 || !concerns(p) {
			continue
		}
		all.Go(func() {
			if unknown, err := c.learnReservation(ctx, p, sharing, kubelet); err != nil {
				mu.Lock()
				defer mu.Unlock()
				unanswered = append(unanswered, unknown...)
				errs = append(errs, fmt.Errorf("claim %s: %w", p.Claim(), err))
			}
		})
	}
	all.Wait()
	if len(errs) > 0 {
		err = fmt.Errorf("%w: %w", errUnsure, errors.Join(errs...))
	}
	return unanswered, err
}

// HalfOf returns the time limit atMost, or half of the time until ctx ends if that is shorter. The other half is for
// the work that follows.
func HalfOf(ctx context.Context, atMost time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(atMost, time.Until(end)/2)
	}
	return atMost
}

// MayShare reports whether a claim may be reserved for a pod without a record of that.
func MayShare(p *plan.Plan, pod Pod) bool {
	return p.Only == "" && p.Namespace == pod.Namespace && !slices.Contains(p.Pods, pod.UID)
}

// learnReservation reads from the API server for which of the pods a claim is reserved, and records a change. It
// returns the pods without a complete answer, and the reason.
func (c *Reservations) learnReservation(
	ctx context.Context, p *plan.Plan, pods []Pod, kubelet kubeletList,
) (unanswered []Pod, err error) {
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	claim, err := getClaim(ctx, c.cfg.Client, name)
	if gone(err, name) || err == nil && claim.UID != p.UID {
		return nil, nil // the claim has ended, and no pod shares it
	}
	if err != nil {
		return pods, err
	}
	members, unanswered, unknown := membersOf(claim, p, pods, kubelet)
	if unknown != nil && !errors.Is(unknown, errUnlisted) {
		c.cfg.Report.Record(event.Event{
			Namespace: p.Namespace, Claim: p.Name, UID: p.UID, Reason: event.MoveFailed,
			Message: fmt.Sprintf("%v; until the kubelet answers, the containers of new pods of the group do not start", unknown),
		})
	}
	if len(members) == 0 && p.Reserved(claim, p.Pods) == p {
		return unanswered, unknown
	}
	if err := c.recordReservation(ctx, p, claim, members); err != nil {
		return pods, err
	}
	return unanswered, unknown
}

// recordReservation records for which pods a claim is reserved: those in its status, and the members of its PodGroup
// with a sandbox on this node. It locks the claim.
func (c *Reservations) recordReservation(
	ctx context.Context, p *plan.Plan, claim *resourceapi.ResourceClaim, members []types.UID,
) error {
	release, err := c.cfg.Store.LockClaim(ctx, p.UID)
	if err != nil {
		return err
	}
	defer release()
	// A pod that was deleted by force may still run without a reservation. It keeps its devices.
	ended := c.ended(p.Pods)
	return c.cfg.Store.Update(ctx, p.UID, func(now *plan.Plan) *plan.Plan {
		next := now.Reserved(claim, ended).WithPods(members...)
		if c.pods != nil { // the runtime may still have pods that have no cgroup
			next = next.WithPods(c.pods.UsingHostNetwork(now.Pods)...)
		}
		return next
	})
}

// relatedClaims is what the node knows about other claims when it prepares new ones: those of the same pods.
type relatedClaims struct {
	incomplete error                // the reason why other claims may be unknown, nil for none
	listed     podresources.Listing // the kubelet's list, empty unless a claim of a PodGroup is involved
}

// learnOfNewClaims records which prepared claims with interfaces the pods of new claims share. The names of the new
// interfaces must differ from theirs.
func (c *Reservations) learnOfNewClaims(
	ctx context.Context, claims []*resourceapi.ResourceClaim,
) (related relatedClaims) {
	if !c.cfg.Interfaces {
		return related
	}
	var pods []Pod
	for _, claim := range claims {
		for _, uid := range plan.PodsOf(claim) {
			pods = append(pods, Pod{UID: uid, Namespace: claim.Namespace})
		}
	}
	soon, cancel := Soon(ctx)
	_, related.incomplete = c.Learn(soon, pods, (*plan.Plan).HasNetwork)
	cancel()
	if c.mayJoinPodGroup(ctx, claims) {
		soon, cancel := Soon(ctx)
		defer cancel()
		var err error
		related.listed, err = c.askKubelet(soon)()
		related.incomplete = errors.Join(related.incomplete, err)
	}
	return related
}

// PlansOf returns the plans of the claims that are reserved for one of the pods, according to the records.
func (c *Reservations) PlansOf(ctx context.Context, pods ...types.UID) []*plan.Plan {
	return slices.DeleteFunc(c.cfg.Node.View(ctx).Plans, func(p *plan.Plan) bool { return !isForAny(p, pods) })
}

// isForAny reports whether the record of a claim names one of the pods.
func isForAny(p *plan.Plan, pods []types.UID) bool {
	return slices.ContainsFunc(p.Pods, func(pod types.UID) bool { return slices.Contains(pods, pod) })
}

// othersOf returns the plans of the other prepared claims of a claim's pods.
func (c *Reservations) othersOf(
	ctx context.Context, claim *resourceapi.ResourceClaim, related relatedClaims,
) []*plan.Plan {
	pods := plan.PodsOf(claim)
	names := related.listed.SharedWith(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
	return slices.DeleteFunc(c.cfg.Node.View(ctx).Plans, func(p *plan.Plan) bool {
		listed := slices.Contains(names, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		return p.UID == claim.UID || !isForAny(p, pods) && !listed
	})
}

// recordPods returns a function that records the pod of a claim from a report of the hook. After an error the caller
// must keep the report. The pod is that of the container's cgroup: the pod in the report comes from annotations, which
// users can set. A container without a cgroup has ended.
func (c *Reservations) recordPods(ctx context.Context) func(record.Report) error {
	read := sync.OnceValues(c.readPods)
	return func(r record.Report) error {
		p, err := c.cfg.Store.Get(types.UID(r.Claim))
		if r.Claim == "" || err != nil || p == nil || p.Only != "" {
			return nil // no claim, no record, or a claim whose only pod is known
		}
		cgroups, _ := read() // while some cgroups are unreadable, no claim is released
		pod := types.UID(cgroups.Of(r.ID))
		if pod == "" || slices.Contains(p.Pods, pod) {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, releaseTime)
		defer cancel()
		unlock, err := c.cfg.Store.LockClaim(ctx, p.UID)
		if err != nil {
			return err
		}
		defer unlock()
		return c.cfg.Store.Update(ctx, p.UID, func(now *plan.Plan) *plan.Plan {
			if len(now.Pods) >= resourceapi.ResourceClaimReservedForMaxSize {
				now = now.WithoutPods(func(pod types.UID) bool { return !cgroups.Has(string(pod)) })
			}
			return now.WithPods(pod)
		})
	}
}

// ended returns which of the pods have no cgroup on the node any more.
func (c *Reservations) ended(pods []types.UID) []types.UID {
	cgroups, err := c.readPods()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod types.UID) bool { return cgroups.Has(string(pod)) })
}
