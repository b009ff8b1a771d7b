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

// The kubelet prepares a claim once, for the first of the pods that share it. The API server has the others in
// the claim's status, and whoever has to know of a pod that comes later asks it.

// reservedTime is how long the API server has to say for which pods claims are reserved, as a pod starts: half of what
// container runtimes give an NRI plugin for that, or less.
const reservedTime = time.Second

// errUnsure says that a claim of a pod may not be known as such.
var errUnsure = errors.New("whether pods share a claim that is prepared already is not known")

// hearOf makes known which claims that concern pods, and were prepared before these came, are reserved for them. It asks the
// API server once for each of the claims, at the same time, and holds no lock meanwhile. It returns the pods of which it
// is not known, and why.
func (d *Driver) hearOf(ctx context.Context, pods []nri.Pod, concerns func(*plan.Plan, nri.Pod) bool) (unsure []nri.Pod, err error) {
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
			if err := d.hearOfClaim(ctx, p); err != nil {
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

// halfOf returns a time, or half of what is left until ctx ends, if that is less: the other half is for
// what follows.
func halfOf(ctx context.Context, atMost time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(atMost, time.Until(end)/2)
	}
	return atMost
}

// mayShare reports whether a pod that a claim is not known to be reserved for may be one of its pods.
func mayShare(p *plan.Plan, pod nri.Pod) bool {
	return p.Only == "" && p.Namespace == pod.Namespace && !slices.Contains(p.Pods, types.UID(pod.UID))
}

// hearOfClaim reads for which pods a claim is reserved, and records what is new.
func (d *Driver) hearOfClaim(ctx context.Context, p *plan.Plan) error {
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
	// A pod that was deleted by force may run on: it is not reserved for any more, and has what it was given.
	ended := d.ended(p.Pods)
	return d.claims.Update(ctx, p.UID, func(now *plan.Plan) *plan.Plan {
		return now.Reserved(claim, ended).WithPods(d.onHost.among(now.Pods)...)
	})
}

// hearOfPods makes known which claims with interfaces the pods of new claims share, as those of the new ones get their names beside
// them.
func (d *Driver) hearOfPods(ctx context.Context, claims []*resourceapi.ResourceClaim) error {
	if d.attacher == nil {
		return nil
	}
	var pods []nri.Pod
	for _, c := range claims {
		for _, uid := range plan.PodsOf(c) {
			pods = append(pods, nri.Pod{UID: string(uid), Namespace: c.Namespace})
		}
	}
	_, err := d.hearOf(ctx, pods, func(p *plan.Plan, _ nri.Pod) bool { return p.HasNetwork() })
	return err
}

// hear makes known which claims pods share of which something may have to be given to them, or is used by them on the host. It
// returns the pods of which it is not known.
func (s sandboxes) hear(ctx context.Context, pods ...nri.Pod) (unsure []nri.Pod, err error) {
	moves := s.moves()
	if !moves && s.attacher == nil || len(pods) == 0 {
		return nil, nil
	}
	unsure, err = s.hearOf(ctx, pods, func(p *plan.Plan, pod nri.Pod) bool {
		return s.attacher != nil && p.HasNetwork() || moves && slices.ContainsFunc(p.Devices, follows)
	})
	s.onHost.learned(pods, unsure)
	return unsure, err
}

// follows reports whether a device goes where its pod is.
func follows(d plan.Device) bool { return !d.AdminAccess }

// users are the pods that HCAs have gone into, by the kernel's names of the HCAs.
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
