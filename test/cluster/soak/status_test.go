package soak

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
)

// TestStatusKeepsBytes: the driver tells of its device in the status of a claim however somebody else encoded
// the JSON in it, with the rights of the plain manifests, and leaves that JSON as it is.
func TestStatusKeepsBytes(t *testing.T) {
	s := start(t)
	node := drivertest.NewWorker(t, "hgx-h100")
	uid, token := s.NewPod()
	driver := drivertest.StartProcess(t, append(node.Flags(uid), "--kubeconfig", apifault.New(t, s.Config()).Kubeconfig(t, token))...)
	node.WaitForPlugins(1)
	const tidy = `{"apiVersion":"rdma.dev/v1alpha1","kind":"HCAConfig"}`
	for i, tc := range []struct{ name, parameters, foreign string }{
		{"as Go writes it", tidy, `{"a":1,"b":2}`},
		{"spaces", `{"apiVersion": "rdma.dev/v1alpha1", "kind": "HCAConfig"}`, `{"a":1,"b":2}`},
		{"keys in another order", `{"kind":"HCAConfig","apiVersion":"rdma.dev/v1alpha1"}`, `{"a":1,"b":2}`},
		{"both", `{"kind": "HCAConfig", "apiVersion": "rdma.dev/v1alpha1"}`, `{"a":1,"b":2}`},
		{"another driver's data", tidy, `{"b": 1, "a": 2}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.t = t
			claim := s.withBytes(fmt.Sprintf("bytes-%d", i), s.deviceName(i), tc.parameters, tc.foreign)
			before := claim.DeepCopy()
			_, err := node.Prepare(t.Context(), claim)
			must.NoError(t, err)
			drivertest.Eventually(t, func() error {
				must.False(t, driver.HasEnded(), must.Sprint("the driver has ended"))
				var err error
				if claim, err = s.client.ResourceV1().ResourceClaims(claim.Namespace).Get(t.Context(), claim.Name, metav1.GetOptions{}); err != nil {
					return err
				}
				if !slices.ContainsFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool { return d.Driver == "rdma.dev" && d.Data != nil }) {
					return fmt.Errorf("the status tells of %v", claim.Status.Devices)
				}
				return nil
			})
			claim.Status.Devices = slices.DeleteFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool { return d.Driver == "rdma.dev" })
			test.True(t, equality.Semantic.DeepEqual(before.Status, claim.Status),
				test.Sprintf("what others wrote is %v, was %v", claim.Status, before.Status))
		})
	}
}

// deviceName is a device that is published.
func (s *server) deviceName(i int) string {
	s.t.Helper()
	var names []string
	drivertest.Eventually(s.t, func() error {
		names = nil
		for _, slice := range s.Slices() {
			for _, d := range slice.Spec.Devices {
				names = append(names, d.Name)
			}
		}
		if len(names) <= i {
			return fmt.Errorf("%d devices are published", len(names))
		}
		return nil
	})
	slices.Sort(names)
	return names[i]
}

// withBytes makes a claim with parameters of a user's own encoding, which the scheduler copies into the allocation, and
// in its status what another driver tells. The client speaks protobuf, as the scheduler's does, which has them as they are.
func (s *server) withBytes(name, device, parameters, foreign string) *resourceapi.ResourceClaim {
	s.t.Helper()
	config := resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: "rdma.dev", Parameters: runtime.RawExtension{Raw: []byte(parameters)},
	}}
	spec := controlplane.Claim(controlplane.Want("hca", "hca.rdma.dev"), controlplane.Want("other", "hca.rdma.dev"))
	spec.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: config}}
	allocation := &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "hca", Driver: "rdma.dev", Pool: drivertest.NodeName, Device: device},
				{Request: "other", Driver: "gpu.example.com", Pool: drivertest.NodeName, Device: "gpu-0"},
			},
			Config: []resourceapi.DeviceAllocationConfiguration{{Source: resourceapi.AllocationConfigSourceClaim, DeviceConfiguration: config}},
		},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{drivertest.NodeName}}},
		}}},
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: userNamespace, Name: name}}
	s.create(claim, spec, allocation)
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: "gpu.example.com", Pool: drivertest.NodeName, Device: "gpu-0", Data: &runtime.RawExtension{Raw: []byte(foreign)},
	}}
	claim, err := s.client.ResourceV1().ResourceClaims(userNamespace).UpdateStatus(s.t.Context(), claim, metav1.UpdateOptions{})
	must.NoError(s.t, err)
	must.Eq(s.t, parameters, string(claim.Status.Allocation.Devices.Config[0].Opaque.Parameters.Raw),
		must.Sprint("the allocation has the parameters"))
	return claim
}
