package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/nri"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// The kubelet prepares a claim once, for the first of the pods that share it. Only the API server knows the others, in
// the status of the claim.

// reservedTime is the time limit of the API server for the reservations of claims when a pod starts: at most half of
// what container runtimes give an NRI plugin.
const reservedTime = time.Second

// errUnsure says that a pod may have a claim that is not known to be reserved for it.
var errUnsure = errors.New("whether pods share a claim that is prepared already is not known")

// learnReservations records which claims that were prepared before are reserved for pods. It asks the API server once
// for each claim that may concern them, at the same time and without a lock. It returns the pods for which the answer
// is unknown, and why.
func (d *Driver) learnReservations(
	ctx context.Context, pods []nri.Pod, concerns func(*plan.Plan, nri.Pod) bool,
) (unsure []nri.Pod, err error) {
	ctx, cancel := context.WithTimeout(ctx, halfOf(ctx, reservedTime))
	defer cancel()
	var (
		mu   sync.Mutex
		errs []error
		all  sync.WaitGroup
	)
	for _, p := range d.plans(ctx) {
		those := slices.DeleteFunc(slices.Clone(pods), func(pod nri.Pod) bool { return !mayShare(p, pod) || !concerns(p, pod) })
		if len(those) == 0 {
			continue
		}
		all.Go(func() {
			if err := d.learnReservation(ctx, p); err != nil {
				mu.Lock()
				defer mu.Unlock()
				unsure, errs = append(unsure, those...), append(errs, fmt.Errorf("claim %s: %w", p.Claim(), err))
			}
		})
	}
	all.Wait()
	if len(errs) > 0 {
		err = fmt.Errorf("%w: %w", errUnsure, errors.Join(errs...))
	}
	return unsure, err
}

// halfOf returns a time limit, but at most half of the time until ctx ends. The other half is for what follows.
func halfOf(ctx context.Context, atMost time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(atMost, time.Until(end)/2)
	}
	return atMost
}

// mayShare reports whether a claim may be reserved for a pod although that is not recorded.
func mayShare(p *plan.Plan, pod nri.Pod) bool {
	return p.Only == "" && p.Namespace == pod.Namespace && !slices.Contains(p.Pods, types.UID(pod.UID))
}

// learnReservation reads for which pods a claim is reserved, and records new ones.
func (d *Driver) learnReservation(ctx context.Context, p *plan.Plan) error {
	claim, err := getClaim(ctx, d.client, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	if apierrors.IsNotFound(err) || err == nil && claim.UID != p.UID {
		return nil // it has ended, and nobody shares it
	}
	if err != nil || p.Reserved(claim, p.Pods) == p {
		return err
	}
	release, err := d.claims.LockClaim(ctx, p.UID)
	if err != nil {
		return err
	}
	defer release()
	// A pod that was deleted by force may still run. The claim is no longer reserved for it, and it keeps its devices.
	ended := d.ended(p.Pods)
	return d.claims.Update(ctx, p.UID, func(now *plan.Plan) *plan.Plan {
		return now.Reserved(claim, ended).WithPods(d.onHost.among(now.Pods)...)
	})
}

// learnOfNewClaims records which claims with interfaces the pods of new claims share: the new interfaces get names
// beside theirs.
func (d *Driver) learnOfNewClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) error {
	if d.attacher == nil {
		return nil
	}
	var pods []nri.Pod
	for _, c := range claims {
		for _, uid := range plan.PodsOf(c) {
			pods = append(pods, nri.Pod{UID: string(uid), Namespace: c.Namespace})
		}
	}
	_, err := d.learnReservations(ctx, pods, func(p *plan.Plan, _ nri.Pod) bool { return p.HasNetwork() })
	return err
}

// learnOfPods records which claims with something to give, or with something in use on the host, are reserved for pods.
// It returns the pods for which that is unknown.
func (s sandboxes) learnOfPods(ctx context.Context, pods ...nri.Pod) (unsure []nri.Pod, err error) {
	moves := s.moves()
	if !moves && s.attacher == nil || len(pods) == 0 {
		return nil, nil
	}
	unsure, err = s.learnReservations(ctx, pods, func(p *plan.Plan, pod nri.Pod) bool {
		return s.attacher != nil && p.HasNetwork() || moves && slices.ContainsFunc(p.Devices, follows)
	})
	s.onHost.learned(pods, unsure)
	return unsure, err
}

// follows reports whether a device moves into the network namespace of its pod.
func follows(d plan.Device) bool { return !d.AdminAccess }

// users are the pods that have HCAs, by the kernel's names of the HCAs.
type users map[string]nri.Pod

// of returns the HCAs that went into a pod.
func (u users) of(pod nri.Pod) (ibdevs []string) {
	for ibdev, user := range u {
		if user == pod {
			ibdevs = append(ibdevs, ibdev)
		}
	}
	slices.Sort(ibdevs)
	return ibdevs
}
