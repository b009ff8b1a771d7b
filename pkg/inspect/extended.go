package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
)

// extendedClaim finds the claim for the extended resources of the pod, such as rdma/hca
// (KEP-5004): the claim that the scheduler has made, or the one that it would make.
func (w *resolver) extendedClaim() {
	pod := &w.Question.Pod
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		ref := corev1.PodResourceClaim{Name: "extended resources", ResourceClaimName: &s.ResourceClaimName}
		w.resolveNamed(&ref, s.ResourceClaimName, false)
		return
	}
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name, claim.UID = pod.Namespace, pod.Name+"-extended-resources", pod.UID
	var names []string
	for _, amount := range extendedResources(pod) {
		class := w.extendedClasses().GetDeviceClass(amount.name)
		switch {
		case offered(w.Cluster.Nodes, amount.name): // a device plugin provides it
		case class != nil:
			amount.request.Exactly.DeviceClassName = class.Name
			claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, amount.request)
			names = appendNew(names, string(amount.name))
		case pod.Spec.NodeName == "" && !w.guessed:
			w.find(Finding{
				Reason: "ExtendedResourceUnknown",
				Message: fmt.Sprintf("container %s asks for %s, which no node offers and no DeviceClass maps to devices",
					amount.container, amount.name),
				Remedy: "set extendedResourceName of a DeviceClass to it (the value extendedResourceName of the chart); " +
					"Kubernetes 1.34 and 1.35 need the feature gate DRAExtendedResource, too",
			})
		}
	}
	if len(names) > 0 {
		w.wanted = append(w.wanted, &wanted{in: strings.Join(names, ", "), claim: claim, extended: true})
	}
}

// extendedClasses finds the DeviceClasses of extended resources.
func (v *view) extendedClasses() *extendedresourcecache.ExtendedResourceCache {
	if v.extended == nil {
		v.extended = extendedresourcecache.NewExtendedResourceCache(klog.Background())
		for i := range v.Classes {
			v.extended.OnAdd(&v.Classes[i], true)
		}
	}
	return v.extended
}

// offered reports whether a node has an extended resource from a device plugin.
func offered(nodes []corev1.Node, name corev1.ResourceName) bool {
	return slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		q, ok := n.Status.Allocatable[name]
		return ok && !q.IsZero()
	})
}

// amount is a container's request for an extended resource.
type amount struct {
	name      corev1.ResourceName
	container string
	// request is the scheduler's request for it: without selectors and constraints.
	request resourceapi.DeviceRequest
}

// extendedResources lists the extended resources of the containers that run at the same time. An init
// container that ends before the others shares their devices.
func extendedResources(pod *corev1.Pod) []amount {
	var out []amount
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for i, c := range containers {
		if i < len(pod.Spec.InitContainers) && deref(c.RestartPolicy) != corev1.ContainerRestartPolicyAlways {
			continue
		}
		for nth, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
			if q := c.Resources.Requests[name]; isExtended(name) && !q.IsZero() {
				out = append(out, amount{name, c.Name, resourceapi.DeviceRequest{
					Name: fmt.Sprintf("container-%d-request-%d", i, nth),
					Exactly: &resourceapi.ExactDeviceRequest{
						AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: q.Value(),
					},
				}})
			}
		}
	}
	return out
}

// isExtended implements the rule of the API: a name with a domain other than Kubernetes' own. The
// names of classes are an exception.
func isExtended(name corev1.ResourceName) bool {
	s := string(name)
	if strings.HasPrefix(s, resourceapi.ResourceDeviceClassPrefix) {
		return true
	}
	domain, _, qualified := strings.Cut(s, "/")
	return qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		!strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix)
}
