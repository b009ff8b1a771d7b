package policies

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
)

type changeClaim = func(*resourceapi.ResourceClaim)

// result is an allocated device.
func result(driver, node string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Request: driver[:3], Driver: driver, Pool: node, Device: "dev-0"}
}

// says is an entry of the status of such a device, with a condition.
func says(driver, node, reason string) resourceapi.AllocatedDeviceStatus {
	return resourceapi.AllocatedDeviceStatus{Driver: driver, Pool: node, Device: "dev-0", Conditions: []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Unix(1, 0)},
	}}
}

// storeClaims stores claims with what their drivers tell of them.
func (r *reach) storeClaims(t *testing.T) {
	t.Helper()
	for name, c := range map[string]struct {
		node    string
		drivers []string
	}{
		"own": {nodeA, []string{driverName}}, "both": {nodeA, []string{driverName, otherDriver}}, "other-node": {nodeB, []string{driverName}},
		"other-driver": {nodeA, []string{otherDriver}}, "waiting": {},
	} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, Labels: map[string]string{"a": "b"}, Finalizers: []string{"example.com/keep"}}}
		claim.Spec.Devices = controlplane.Claim(controlplane.Want("rdm", "hca.rdma.dev"), controlplane.Want("gpu", "hca.rdma.dev"))
		stored, err := r.admin.ResourceV1().ResourceClaims(team).Create(t.Context(), claim, metav1.CreateOptions{})
		must(t, err)
		if len(c.drivers) > 0 {
			stored.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{c.node}}},
			}}}}
			stored.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "1"}}
			for _, driver := range c.drivers {
				stored.Status.Allocation.Devices.Results = append(stored.Status.Allocation.Devices.Results, result(driver, c.node))
				stored.Status.Devices = append(stored.Status.Devices, says(driver, c.node, "Before"))
			}
			stored, err = r.admin.ResourceV1().ResourceClaims(team).UpdateStatus(t.Context(), stored, metav1.UpdateOptions{})
			must(t, err)
		}
		r.claims[name] = stored
	}
}

// updateStatus writes the status of a claim that was changed.
func (r *reach) updateStatus(name string, changes ...changeClaim) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, as kubernetes.Interface) error {
		c := r.claims[name].DeepCopy()
		for _, change := range changes {
			change(c)
		}
		_, err := as.ResourceV1().ResourceClaims(team).UpdateStatus(ctx, c, dryUpdate)
		return err
	}
}

// without writes the status of a claim that was changed, and fails unless the change has no effect.
func (r *reach) without(change changeClaim) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, as kubernetes.Interface) error {
		c := r.claims["own"].DeepCopy()
		change(c)
		got, err := as.ResourceV1().ResourceClaims(team).UpdateStatus(ctx, c, dryUpdate)
		if err != nil {
			return err
		}
		want := r.claims["own"].DeepCopy()
		got.ManagedFields, want.ManagedFields, got.ResourceVersion, want.ResourceVersion = nil, nil, "", ""
		if !equality.Semantic.DeepEqual(got, want) {
			return fmt.Errorf("the claim is %+v, was %+v", got, want)
		}
		return nil
	}
}

// applyStatus applies an entry to the status of a claim, as the driver does.
func applyStatus(claim string, entry resourceapi.AllocatedDeviceStatus) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, as kubernetes.Interface) error {
		body := fmt.Sprintf(`{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": %q}, "status": {"devices": [`+
			`{"driver": %q, "pool": %q, "device": %q, "data": {"a": 1}}]}}`, claim, entry.Driver, entry.Pool, entry.Device)
		_, err := as.ResourceV1().ResourceClaims(team).Patch(ctx, claim, "application/apply-patch+yaml", []byte(body),
			metav1.PatchOptions{DryRun: dryPatch.DryRun, FieldManager: driverName, Force: new(true)}, "status")
		return err
	}
}

// entry replaces, or adds, an entry of a claim's status.
func entry(s resourceapi.AllocatedDeviceStatus) changeClaim {
	return func(c *resourceapi.ResourceClaim) {
		for i, d := range c.Status.Devices {
			if d.Driver == s.Driver && d.Pool == s.Pool {
				c.Status.Devices[i] = s
				return
			}
		}
		c.Status.Devices = append(c.Status.Devices, s)
	}
}

// claimAttempts are attempts on the status of claims.
func (r *reach) claimAttempts(t *testing.T) []attempt {
	t.Helper()
	const others, foreign, allocation = "may tell of devices of driver rdma.dev in pool node-a only", "that have a device of driver rdma.dev in pool node-a", "may not change what a claim was allocated"
	const fixed = "field cannot be modified once set" // says the API server itself
	write := func(name, claim, want string, changes ...changeClaim) attempt {
		return attempt{name, nil, r.updateStatus(claim, changes...), want}
	}
	none := func(*resourceapi.ResourceClaim) {}
	forged := func(c *resourceapi.ResourceClaim) {
		fields := &metav1.FieldsV1{}
		fields.SetRawString(`{"f:status":{"f:allocation":{}}}`)
		c.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: otherDriver, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "resource.k8s.io/v1", FieldsType: "FieldsV1", Subresource: "status",
			FieldsV1: fields,
		}}
	}
	return []attempt{
		write("its device", "own", "", entry(says(driverName, nodeA, "After"))),
		write("its device in a claim with another driver", "both", "", entry(says(driverName, nodeA, "After"))),
		write("no device of its own any more", "both", "", func(c *resourceapi.ResourceClaim) { c.Status.Devices = c.Status.Devices[1:] }),
		{"apply its device", nil, applyStatus("both", says(driverName, nodeA, "After")), ""},
		write("the device of another driver", "both", others, entry(says(otherDriver, nodeA, "After"))),
		{"apply the device of another driver", nil, applyStatus("both", says(otherDriver, nodeA, "After")), others},
		write("no device of another driver any more", "both", others, func(c *resourceapi.ResourceClaim) { c.Status.Devices = c.Status.Devices[:1] }),
		write("devices in a claim of another node", "other-node", foreign, entry(says(driverName, nodeB, "After"))),
		{"apply a device in a claim of another node", nil, applyStatus("other-node", says(driverName, nodeB, "After")), foreign},
		write("no devices in a claim of another node", "other-node", foreign, func(c *resourceapi.ResourceClaim) { c.Status.Devices = nil }),
		write("nothing in a claim of another node", "other-node", foreign, none),
		write("nothing in a claim of another driver", "other-driver", foreign, none),
		write("nothing in a claim that is not allocated", "waiting", foreign, none),
		write("its device in a claim of another node", "other-node", "must be an allocated device", entry(says(driverName, nodeA, "After"))),
		write("the managers in a claim of another node", "other-node", foreign, forged),
		write("the managers of a claim", "own", "", forged),
		write("an allocation", "waiting", allocation, func(c *resourceapi.ResourceClaim) { c.Status = r.claims["own"].Status }),
		write("another device", "own", fixed, func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "dev-1" }),
		write("another node", "own", fixed, func(c *resourceapi.ResourceClaim) { c.Status.Allocation.NodeSelector = nil }),
		write("parameters", "own", fixed, func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{Source: resourceapi.AllocationConfigSourceClass,
				DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driverName}}}}
		}),
		write("no allocation", "own", allocation, func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} }),
		write("no pod", "own", allocation, func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil }),
		write("another pod", "own", allocation, func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor[0].UID = "2" }),
		{"labels", nil, r.without(func(c *resourceapi.ResourceClaim) { c.Labels = nil }), ""},
		{"annotations", nil, r.without(func(c *resourceapi.ResourceClaim) { c.Annotations = map[string]string{"a": "b"} }), ""},
		{"no finalizers", nil, r.without(func(c *resourceapi.ResourceClaim) { c.Finalizers = nil }), ""},
		{"another finalizer", nil, r.without(func(c *resourceapi.ResourceClaim) { c.Finalizers = append(c.Finalizers, "example.com/more") }), ""},
		{"an owner", nil, r.without(func(c *resourceapi.ResourceClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "1"}}
		}), ""},
		{"another request", nil, r.without(func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Name = "other" }), ""},
		{"its device by a token without a pod", r.loose, r.updateStatus("own", entry(says(driverName, nodeA, "After"))), "names no node"},
		{"the parameters of a claim by the kubelet", r.node, r.updateStatus("own", none), "cannot update"},
	}
}
