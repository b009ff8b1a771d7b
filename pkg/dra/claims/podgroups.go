package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/podresources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// A claim may be reserved for a PodGroup (KEP-5729). Its status then names the group and none of its pods. The kubelet
// decides which pods may use the claim, before it makes their sandboxes. So a pod with a sandbox may use each claim
// that the kubelet lists for it (docs/adr/0042-claims-of-podgroups.md).

// askKubeletForHalf is askKubelet with half of the time until ctx ends. The other half is for the records.
func (s *shared) askKubeletForHalf(ctx context.Context) kubeletList {
	return sync.OnceValues(func() (podresources.Listing, error) {
		ctx, cancel := context.WithTimeout(ctx, HalfOf(ctx, Patience))
		defer cancel()
		return s.askKubelet(ctx)()
	})
}

// errUnlisted means that the kubelet does not list a pod with a sandbox.
var errUnlisted = errors.New("the kubelet does not list them yet")

// membersOf returns the pods with a sandbox that may use a claim because it is reserved for their PodGroup. For the
// pods in unanswered, there is no answer yet: err is the reason. It asks the kubelet only about a claim of a PodGroup.
func membersOf(
	claim *resourceapi.ResourceClaim, p *plan.Plan, pods []Pod, kubelet kubeletList,
) (members []types.UID, unanswered []Pod, err error) {
	group := plan.PodGroupOf(claim)
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod Pod) bool { return pod.Name == "" })
	if group == "" || len(pods) == 0 {
		return nil, nil, nil
	}
	listing, err := kubelet()
	if err != nil {
		return nil, pods, fmt.Errorf("find the pods of PodGroup %s: %w", group, err)
	}
	for _, pod := range pods {
		// The CDI devices have the UID of the claim: the kubelet lists claims by name.
		uses, known := listing.Uses(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
			types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p.CDIDevices())
		switch {
		case !known:
			unanswered = append(unanswered, pod)
		case uses:
			members = append(members, pod.UID)
		}
	}
	if len(unanswered) > 0 {
		err = fmt.Errorf("find the pods of PodGroup %s: pods %s: %w", group, namesOf(unanswered), errUnlisted)
	}
	return members, unanswered, err
}

func namesOf(pods []Pod) (names []string) {
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// mayJoinPodGroup reports whether a pod of new claims may have a claim of a PodGroup too, new or prepared. The record
// of such a claim does not name the pod before the pod has a sandbox.
func (c *Reservations) mayJoinPodGroup(ctx context.Context, claims []*resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool {
		return plan.PodGroupOf(claim) != "" ||
			slices.ContainsFunc(c.cfg.Node.View(ctx).Plans, func(p *plan.Plan) bool {
				return p.PodGroup != "" && p.Namespace == claim.Namespace && p.HasNetwork()
			})
	})
}
