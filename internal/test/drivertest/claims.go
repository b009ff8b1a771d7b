package drivertest

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
)

// driverName is the driver under test, which this package must not import.
const driverName = "rdma.dev"

// Claim makes a claim, the n-th of a test, that was allocated devices of the node:
// request r0 has the first one, r1 the second.
func Claim(n int, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: fmt.Sprintf("claim-%d", n), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)),
	}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for i, device := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: fmt.Sprintf("r%d", i), Driver: driverName, Pool: NodeName, Device: device,
		})
	}
	return c
}

// Monitor makes a claim with admin access. A device can have many such claims.
func Monitor(n int, device string) *resourceapi.ResourceClaim {
	c, yes := Claim(n, device), true
	c.Status.Allocation.Devices.Results[0].AdminAccess = &yes
	return c
}

// Share makes a claim with a share of each device, and with what the scheduler gave
// it of the devices' capacities.
func Share(n int, consumed map[string]string, devices ...string) *resourceapi.ResourceClaim {
	c := Claim(n, devices...)
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		id := types.UID(fmt.Sprintf("5ba4e000-0000-4000-8000-%06d%06d", n, i))
		r.ShareID = &id
		r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse("1")}
		for name, quantity := range consumed {
			r.ConsumedCapacity[resourceapi.QualifiedName(name)] = resource.MustParse(quantity)
		}
	}
	return c
}

// ForPod makes the claim one that was made for a pod from a template, and is reserved for it.
func ForPod(c *resourceapi.ResourceClaim, pod string) *resourceapi.ResourceClaim {
	yes := true
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID(pod), Controller: &yes}}
	return ReservedFor(c, pod)
}

// ReservedFor reserves the claim for one more pod, by its UID.
func ReservedFor(c *resourceapi.ResourceClaim, pod string) *resourceapi.ResourceClaim {
	c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
	return c
}

// UsedBy adds pods to those that a claim is reserved for.
func UsedBy(c *resourceapi.ResourceClaim, pods ...string) *resourceapi.ResourceClaim {
	for _, name := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
			Resource: "pods", Name: name, UID: types.UID("uid-" + name),
		})
	}
	c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
		APIGroup: "example.org", Resource: "jobs", Name: "no-pod", UID: "j",
	})
	return c
}

// ForPodGroup makes the claim one that was made for a PodGroup from a template, and is reserved for it.
func ForPodGroup(c *resourceapi.ResourceClaim, group string) *resourceapi.ResourceClaim {
	yes := true
	c.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroup", Name: group, UID: types.UID(group), Controller: &yes,
	}}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{
		APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: group, UID: types.UID(group),
	}}
	return c
}

// MadeAnew is another claim of the same name, with the same devices.
func MadeAnew(c *resourceapi.ResourceClaim, n int) *resourceapi.ResourceClaim {
	c = c.DeepCopy()
	c.UID, c.OwnerReferences, c.Status.ReservedFor = Claim(n).UID, nil, nil
	return c
}

// Deallocated is the claim without an allocation.
func Deallocated(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	c = c.DeepCopy()
	c.Status = resourceapi.ResourceClaimStatus{}
	return c
}

// Elsewhere is the claim with the same devices of another node.
func Elsewhere(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	c = c.DeepCopy()
	c.Status.ReservedFor = nil
	for i := range c.Status.Allocation.Devices.Results {
		c.Status.Allocation.Devices.Results[i].Pool = NodeName + "-other"
	}
	return c
}

// WithParameters adds parameters that the user wrote into the claim, for all its
// requests. Fields is the inside of a JSON object.
func WithParameters(c *resourceapi.ResourceClaim, fields string) *resourceapi.ResourceClaim {
	return withOpaque(c, resourceapi.AllocationConfigSourceClaim, "HCAConfig", fields)
}

// WithNetwork adds parameters with a network, a JSON object, and a class that allows all such networks.
func WithNetwork(c *resourceapi.ResourceClaim, network string) *resourceapi.ResourceClaim {
	c = WithParameters(c, `"network": `+network)
	return withOpaque(c, resourceapi.AllocationConfigSourceClass, "HCAClassConfig", `"allow": {"network": {`+
		`"modes": ["move", "macvlan", "ipvlan"], "vlans": [200], "addresses": ["10.0.0.0/8"], `+
		`"ipam": ["roce"], "routes": ["10.0.0.0/8"], "mtuMax": 9000}}`)
}

func withOpaque(
	c *resourceapi.ResourceClaim, source resourceapi.AllocationConfigSource, kind, fields string,
) *resourceapi.ResourceClaim {
	raw := fmt.Sprintf(`{"apiVersion": "rdma.dev/v1alpha1", "kind": %q, %s}`, kind, fields)
	c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, resourceapi.DeviceAllocationConfiguration{
		Source: source,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: driverName, Parameters: runtime.RawExtension{Raw: []byte(raw)},
		}},
	})
	return c
}

// reference is how the kubelet names a claim to the driver.
func reference(c *resourceapi.ResourceClaim) *drapb.Claim {
	return &drapb.Claim{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}
}

func references(claims []*resourceapi.ResourceClaim) []*drapb.Claim {
	var out []*drapb.Claim
	for _, c := range claims {
		out = append(out, reference(c))
	}
	return out
}
