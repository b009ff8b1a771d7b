package manifest

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
)

// Manifest has objects that do not exist yet. Their fields have the API server's defaults, as far as [why.Explain]
// reads them.
type Manifest struct {
	Pods      []PlannedPod
	Claims    []resourceapi.ResourceClaim
	Templates []resourceapi.ResourceClaimTemplate
	Classes   []resourceapi.DeviceClass
}

// PlannedPod is a pod of a manifest.
type PlannedPod struct {
	// Of is the object that would make the pod, as "Job/allreduce". It is "" for a Pod.
	Of  string
	Pod corev1.Pod
}

// AddTo adds the classes and claims of a manifest to a cluster. A class of the manifest replaces that of the cluster,
// as kubectl apply would; the spec of a claim never changes.
func (m *Manifest) AddTo(c *model.Cluster) {
	c.Classes = slices.DeleteFunc(c.Classes, func(old resourceapi.DeviceClass) bool {
		return slices.ContainsFunc(m.Classes, func(n resourceapi.DeviceClass) bool { return n.Name == old.Name })
	})
	c.Classes = append(c.Classes, m.Classes...)
	for _, claim := range m.Claims {
		exists := func(old resourceapi.ResourceClaim) bool { return model.NameOf(&old) == model.NameOf(&claim) }
		if !slices.ContainsFunc(c.Claims, exists) {
			claim.UID = cmp.Or(claim.UID, types.UID("planned-"+model.ClaimName(&claim)))
			c.Claims = append(c.Claims, claim)
		}
	}
}

// TemplatesBeside returns the names of the templates that a pod names and the manifest lacks.
func (m *Manifest) TemplatesBeside(p *PlannedPod) (names []string) {
	for _, ref := range p.Pod.Spec.ResourceClaims {
		if name := ptr.Deref(ref.ResourceClaimTemplateName, ""); name != "" && m.template(p.Pod.Namespace, name) == nil {
			names = model.AppendNew(names, name)
		}
	}
	return names
}

func (m *Manifest) template(namespace, name string) *resourceapi.ResourceClaimTemplate {
	i := slices.IndexFunc(m.Templates, func(t resourceapi.ResourceClaimTemplate) bool {
		return t.Namespace == namespace && t.Name == name
	})
	if i < 0 {
		return nil
	}
	return &m.Templates[i]
}

// Question asks whether a pod of the manifest would get its devices. templates are those of the cluster that
// TemplatesBeside names; one that is missing there does not exist.
func (m *Manifest) Question(p *PlannedPod, templates map[string]*resourceapi.ResourceClaimTemplate) why.Question {
	q := why.Question{Pod: *p.Pod.DeepCopy(), Templates: map[string]bool{}, Planned: &why.Planned{Of: p.Of}}
	pod := &q.Pod
	pod.UID, pod.Status = "planned", corev1.PodStatus{}
	for _, ref := range pod.Spec.ResourceClaims {
		name := ptr.Deref(ref.ResourceClaimTemplateName, "")
		template := cmp.Or(m.template(pod.Namespace, name), templates[name])
		if template == nil {
			q.Templates[name] = false
			continue
		}
		claim := resourceapi.ResourceClaim{Spec: *template.Spec.Spec.DeepCopy()}
		claim.Namespace, claim.Name = pod.Namespace, pod.Name+"-"+ref.Name+"-xxxxx" // Kubernetes adds five random characters
		claim.UID = types.UID("planned-" + claim.Name)
		claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
		q.Planned.Claims = append(q.Planned.Claims, claim)
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses,
			corev1.PodResourceClaimStatus{Name: ref.Name, ResourceClaimName: &claim.Name})
	}
	return q
}

// setClaimDefaults sets those defaults of the API server that the allocator needs.
func setClaimDefaults(spec *resourceapi.ResourceClaimSpec) {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			setRequestDefaults(&r.Exactly.AllocationMode, &r.Exactly.Count, r.Exactly.Tolerations)
		}
		for j := range r.FirstAvailable {
			s := &r.FirstAvailable[j]
			setRequestDefaults(&s.AllocationMode, &s.Count, s.Tolerations)
		}
	}
}

func setRequestDefaults(
	mode *resourceapi.DeviceAllocationMode, count *int64, tolerations []resourceapi.DeviceToleration,
) {
	*mode = cmp.Or(*mode, resourceapi.DeviceAllocationModeExactCount)
	if *mode == resourceapi.DeviceAllocationModeExactCount {
		*count = cmp.Or(*count, 1)
	}
	for i := range tolerations {
		tolerations[i].Operator = cmp.Or(tolerations[i].Operator, resourceapi.DeviceTolerationOpEqual)
	}
}

// setPodDefaults has containers request what their limits name, as the API server does.
func setPodDefaults(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			requests := corev1.ResourceList{}
			maps.Copy(requests, r.Limits)
			maps.Copy(requests, r.Requests)
			r.Requests = requests
		}
	}
}
