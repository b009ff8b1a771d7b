package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

var extendedResourceUnknown = Kinds.Kind("ExtendedResourceUnknown", classesRead, nodesRead)

// extendedClaim finds the claim for the extended resources of the pod, such as rdma/hca
// (KEP-5004): the claim that the scheduler has made, or the one that it would make.
func (w *resolver) extendedClaim() {
	pod := &w.q.Pod
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		ref := corev1.PodResourceClaim{Name: "extended resources", ResourceClaimName: &s.ResourceClaimName}
		w.resolveNamed(&ref, s.ResourceClaimName, true) // as PodClaims of package resourceclaim does
		return
	}
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name, claim.UID = pod.Namespace, pod.Name+"-extended-resources", pod.UID
	var names []string
	var resources []corev1.ResourceName
	nodes := w.view.Cluster.Nodes
	if node := w.view.Nodes[pod.Spec.NodeName]; node != nil {
		nodes = []corev1.Node{*node}
	}
	for _, amount := range extendedResources(pod) {
		class := w.view.ExtendedClasses().GetDeviceClass(amount.name)
		switch {
		case offeredByAll(nodes, amount.name): // only device plugins provide it
		case class != nil && w.view.Guessed && pod.Spec.NodeName != "": // a device plugin may have given it
			w.cannotTell(model.Nodes, fmt.Sprintf("container %s asks for %s: the nodes", amount.container, amount.name))
		case class != nil:
			amount.request.Exactly.DeviceClassName = class.Name
			claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, amount.request)
			names = model.AppendNew(names, string(amount.name))
			resources = model.AppendNew(resources, amount.name)
		case w.view.Cluster.Unread.Has(model.Classes):
			w.cannotTell(model.Classes,
				fmt.Sprintf("container %s asks for %s: the DeviceClasses", amount.container, amount.name))
		case offered(w.view.Cluster.Nodes, amount.name):
		case pod.Spec.NodeName == "" && !w.view.Guessed:
			w.find(problem(extendedResourceUnknown,
				fmt.Sprintf("container %s asks for %s, which no node offers and no DeviceClass maps to devices",
					amount.container, amount.name),
				"set extendedResourceName of a DeviceClass to it (the chart's value deviceClasses.extendedResourceName); "+
					"it needs "+featuregate.Words(featuregate.ExtendedResource, w.view.Cluster.Minor)))
		}
	}
	if len(names) > 0 {
		w.wanted = append(w.wanted, &wanted{in: strings.Join(names, ", "), claim: claim, resources: resources})
	}
}

// offeredByAll reports whether all nodes have an extended resource from a device plugin.
func offeredByAll(nodes []corev1.Node, name corev1.ResourceName) bool {
	without := func(n corev1.Node) bool { return !offered([]corev1.Node{n}, name) }
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, without)
}

// offered reports whether a node has an extended resource from a device plugin. The scheduler then takes it from there,
// and from DeviceClasses on other nodes.
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

// extendedResources returns the requests that the scheduler makes for the extended resources of the containers. The
// containers that run at the same time have one each. An init container that ends before the others uses theirs, and
// one more request has the most that any of these lacks.
func extendedResources(pod *corev1.Pod) []amount {
	var out []amount
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	ends := func(i int) bool {
		policy := ptr.Deref(containers[i].RestartPolicy, "")
		return i < len(pod.Spec.InitContainers) && policy != corev1.ContainerRestartPolicyAlways
	}
	after := map[corev1.ResourceName]int64{} // what the containers behind the current one have
	lacks := map[corev1.ResourceName]amount{}
	for i, c := range slices.Backward(containers) {
		for nth, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
			q := c.Resources.Requests[name]
			if !isExtended(name) || q.IsZero() {
				continue
			}
			a := newAmount(name, c.Name, i, nth, q.Value())
			if !ends(i) {
				after[name] += q.Value()
				out = append(out, a)
				continue
			}
			a.request.Exactly.Count -= after[name]
			most := int64(1)
			if old, ok := lacks[name]; ok {
				most = old.request.Exactly.Count // of equal ones, the scheduler keeps the first
			}
			if a.request.Exactly.Count >= most {
				lacks[name] = a
			}
		}
	}
	out = slices.AppendSeq(out, maps.Values(lacks))
	slices.SortFunc(out, func(a, b amount) int { return cmp.Compare(a.request.Name, b.request.Name) })
	return out
}

func newAmount(name corev1.ResourceName, container string, i, nth int, count int64) amount {
	return amount{name, container, resourceapi.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", i, nth),
		Exactly: &resourceapi.ExactDeviceRequest{
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		},
	}}
}

// isExtended is the scheduler's rule: IsDRAExtendedResourceName in pkg/scheduler/util of Kubernetes 1.37, with
// IsExtendedResourceName in pkg/apis/core/v1/helper.
func isExtended(name corev1.ResourceName) bool {
	s := string(name)
	if strings.HasPrefix(s, resourceapi.ResourceDeviceClassPrefix) {
		return true
	}
	return strings.Contains(s, "/") && !strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+s)) == 0
}
