package inspect

import (
	"cmp"
	"context"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// ClaimState is the state of a claim.
type ClaimState string

// The states.
const (
	ClaimPending   ClaimState = "Pending"   // has no devices
	ClaimAllocated ClaimState = "Allocated" // has devices, and no pod uses them
	ClaimInUse     ClaimState = "InUse"
	ClaimDeleting  ClaimState = "Deleting"
)

func stateOf(c *resourceapi.ResourceClaim) ClaimState {
	switch {
	case c.DeletionTimestamp != nil:
		return ClaimDeleting
	case c.Status.Allocation == nil:
		return ClaimPending
	case len(c.Status.ReservedFor) > 0:
		return ClaimInUse
	}
	return ClaimAllocated
}

// Claim is a claim for RDMA devices.
type Claim struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	State     ClaimState `json:"state"`
	Node      string     `json:"node,omitempty"`
	// Classes are the classes of its requests; Devices are allocated to it.
	Classes []string `json:"classes"`
	Devices []string `json:"devices,omitempty"`
	// IBDevs are the kernel's names of the devices, as the driver publishes them.
	IBDevs []string `json:"ibdevs,omitempty"`
	// Pods are those that it is reserved for. PodGroups may use it by all their pods, which are not in the claim.
	Pods      []string `json:"pods,omitempty"`
	PodGroups []string `json:"podGroups,omitempty"`
	// Addresses are those of its network interfaces in a pod, as the driver reports them.
	Addresses []string `json:"addresses,omitempty"`
	// NotReady are the devices that the driver reports as not ready, with the reason.
	NotReady []string    `json:"notReady,omitempty"`
	Created  metav1.Time `json:"created"`
}

// ListClaims returns the claims that have devices of this driver, or request a class of this
// driver. Such a class selects a device of this driver, or names the driver in its
// selectors.
func (c *Cluster) ListClaims(ctx context.Context) []Claim {
	v := c.view()
	rdma := v.classesOfDriver(ctx)
	var out []Claim
	for i := range c.Claims {
		claim := &c.Claims[i]
		if !concerns(claim, rdma) {
			continue
		}
		out = append(out, Claim{
			Namespace: claim.Namespace, Name: claim.Name, State: stateOf(claim), Node: claimNode(claim),
			Classes: classesOf(claim), Devices: allocatedTo(claim), IBDevs: v.ibdevsOf(claim),
			Pods: podsOf(claim), PodGroups: podGroupsOf(claim),
			Addresses: addressesOf(claim), NotReady: notReady(claim), Created: claim.CreationTimestamp,
		})
	}
	slices.SortFunc(out, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (v *view) classesOfDriver(ctx context.Context) map[string]bool {
	out := map[string]bool{}
	for name, class := range v.classes {
		if out[name] = isOurs(class); !out[name] {
			devices, err := v.ofClass(ctx, class) // a class with an error selects nothing
			out[name] = err == nil && slices.ContainsFunc(devices, func(d *device) bool { return d.slice.Spec.Driver == driver })
		}
	}
	return out
}

func concerns(claim *resourceapi.ResourceClaim, classes map[string]bool) bool {
	if claim.Status.Allocation != nil {
		return claimNode(claim) != ""
	}
	return slices.ContainsFunc(classesOf(claim), func(name string) bool {
		known, ok := classes[name]
		return known || !ok && strings.HasSuffix(name, driver)
	})
}

func classesOf(claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, r := range requestsOf(claim) {
		out = appendNew(out, r.class)
	}
	return out
}

// appendNew appends a value unless the list has it.
func appendNew[T comparable](list []T, value T) []T {
	if slices.Contains(list, value) {
		return list
	}
	return append(list, value)
}

// addressesOf returns the addresses that the driver reports in the status of a claim.
func addressesOf(claim *resourceapi.ResourceClaim) (out []string) {
	for _, d := range claim.Status.Devices {
		if d.Driver == driver && d.NetworkData != nil {
			out = append(out, d.NetworkData.IPs...)
		}
	}
	return out
}

// resultsOf returns the allocation of a claim, nothing while it is pending.
func resultsOf(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	return claim.Status.Allocation.Devices.Results
}

// allocatedTo lists the devices of a claim without duplicates.
func allocatedTo(claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, r := range resultsOf(claim) {
		out = appendNew(out, deviceName(structured.MakeDeviceID(r.Driver, r.Pool, r.Device)))
	}
	return out
}

func (v *view) ibdevsOf(claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, r := range resultsOf(claim) {
		d := v.known[structured.MakeDeviceID(r.Driver, r.Pool, r.Device)]
		if d != nil && r.Driver == driver && d.text("ibdev") != "" {
			out = appendNew(out, d.text("ibdev"))
		}
	}
	return out
}

// claimNode returns the node of a claim's devices of this driver, "" if it has none: the driver's
// pools have the names of their nodes.
func claimNode(claim *resourceapi.ResourceClaim) string {
	for _, r := range resultsOf(claim) {
		if r.Driver == driver {
			return r.Pool
		}
	}
	return ""
}

func podsOf(claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, r := range claim.Status.ReservedFor {
		if r.Resource == "pods" {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return out
}

func podGroupsOf(claim *resourceapi.ResourceClaim) (out []string) {
	for _, r := range claim.Status.ReservedFor {
		if r.APIGroup == schedulingapi.GroupName && r.Resource == "podgroups" {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return out
}

func notReady(claim *resourceapi.ResourceClaim) []string {
	var out []string
	for _, s := range claim.Status.Devices {
		for _, c := range s.Conditions {
			if s.Driver == driver && c.Type == "Ready" && c.Status == metav1.ConditionFalse {
				out = append(out, s.Device+": "+c.Message)
			}
		}
	}
	return out
}
