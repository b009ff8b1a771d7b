package plan

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodsOf returns the UIDs of the pods that a claim is reserved for.
func PodsOf(claim *resourceapi.ResourceClaim) (pods []types.UID) {
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			pods = append(pods, consumer.UID)
		}
	}
	return pods
}

// PodGroupOf returns the name of the PodGroup that a claim is reserved for (KEP-5729), "" for none.
func PodGroupOf(claim *resourceapi.ResourceClaim) string {
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.APIGroup == schedulingapi.GroupName && consumer.Resource == "podgroups" {
			return consumer.Name
		}
	}
	return ""
}

// ownerOf returns the UID of the pod that a claim was made for, from a template or for an extended resource. It returns
// "" for any other claim.
func ownerOf(claim *resourceapi.ResourceClaim) types.UID {
	if owner := metav1.GetControllerOf(claim); owner != nil && isPod(owner) {
		return owner.UID
	}
	return ""
}

// KnownPods returns the pods that the claim is known to be for: those of its record, and the one that it was made for.
func (p *Plan) KnownPods() []types.UID {
	if p.Only == "" {
		return p.Pods
	}
	return p.WithPods(p.Only).Pods
}

// WithPods returns the plan with more pods. It returns the plan itself if it has them already.
func (p *Plan) WithPods(pods ...types.UID) *Plan {
	with := *p
	for _, pod := range pods {
		if !slices.Contains(with.Pods, pod) {
			with.Pods = append(slices.Clip(with.Pods), pod)
		}
	}
	if len(with.Pods) == len(p.Pods) {
		return p
	}
	return &with
}

// WithoutPods returns a copy of the plan without the pods that have ended.
func (p *Plan) WithoutPods(ended func(types.UID) bool) *Plan {
	without := *p
	without.Pods = slices.DeleteFunc(slices.Clone(p.Pods), ended)
	return &without
}

// Reserved returns the plan with the pods that its claim is reserved for. It returns the plan itself if nothing
// changes. before are the pods that may be removed: a pod in it that the claim is not reserved for has ended. Pods that
// another goroutine has added meanwhile stay.
func (p *Plan) Reserved(claim *resourceapi.ResourceClaim, before []types.UID) *Plan {
	now, only := PodsOf(claim), ownerOf(claim)
	ended := func(pod types.UID) bool { return slices.Contains(before, pod) && !slices.Contains(now, pod) }
	kept := *p
	kept.Only, kept.PodGroup = only, PodGroupOf(claim)
	kept.Pods = slices.DeleteFunc(slices.Clone(p.Pods), ended)
	with := kept.WithPods(now...)
	if with.Only == p.Only && with.PodGroup == p.PodGroup && slices.Equal(with.Pods, p.Pods) {
		return p
	}
	return with
}
