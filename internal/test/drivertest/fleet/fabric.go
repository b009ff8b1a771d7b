package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
)

// fabricPolicy has eight rails, and the HCA of the storage network for many claims.
const fabricPolicy = `rules:
- name: storage
  publish: shared
  selectors: [{cel: {expression: '!has(` + RDMA + `.pcieSwitch)'}}]
- {name: compute, rails: 8}
`

// Fabric returns a cluster of 16 HGX nodes on eight rails, in two halves with their own leaf switches: jobs of several
// nodes, pods that wait, and trouble of each kind.
func Fabric(t testing.TB) *Fleet {
	f := New(t)
	for i := range 16 {
		f.Node(fmt.Sprintf("gpu-%02d", i+1), "hgx-h100", fabricPolicy)
		f.wire(fmt.Sprintf("gpu-%02d", i+1), fmt.Sprintf("su%d", i/8+1))
	}
	for i := range 6 {
		f.worker(fmt.Sprintf("gpu-%02d", i+1), fmt.Sprintf("llm-70b-%d", i), "JobSet", "llm-70b", 8)
	}
	for i := range 2 {
		f.worker(fmt.Sprintf("gpu-%02d", i+9), fmt.Sprintf("allreduce-%d", i), "Job", "allreduce", 8)
	}
	for i, node := range []string{"gpu-07", "gpu-07", "gpu-11"} {
		f.worker(node, fmt.Sprintf("serve-%d", i), "ReplicaSet", "serve", 2)
	}
	for i := range 3 {
		pod := Unschedulable(Pod(), "0/16 nodes are available: 16 cannot allocate all claims.")
		f.wait(pod, fmt.Sprintf("llm-405b-%d", i), "JobSet", "llm-405b", 8, RDMA+".?rateGbps.orValue(0) >= 800")
	}
	f.wait(Pod(), "debug", "", "", 16)
	at := metav1.Date(2026, 11, 1, 6, 30, 0, 0, time.UTC)
	for _, fault := range []struct {
		node, device, key string
		effect            resourceapi.DeviceTaintEffect
	}{
		{"gpu-03", f.rail("gpu-03", 5), "rdma.dev/port-down", resourceapi.DeviceTaintEffectNoSchedule},
		{"gpu-08", f.rail("gpu-08", 2), "rdma.dev/port-errors", resourceapi.DeviceTaintEffectNoSchedule},
		{"gpu-12", f.rail("gpu-12", 4), "rdma.dev/pcie-degraded", resourceapi.DeviceTaintEffectNone},
		{"gpu-13", f.rail("gpu-13", 6), "rdma.dev/miswired", resourceapi.DeviceTaintEffectNone},
	} {
		f.Taint(fault.node, fault.device, fault.key, fault.effect).TimeAdded = &at
	}
	f.attribute("gpu-13", f.rail("gpu-13", 6), "leafSwitch", "leaf-su2-r7")
	drain := f.Rule("rdma-drain.node.gpu-14", "rdma.dev", "rdma.dev/drain", resourceapi.DeviceTaintEffectNoSchedule)
	drain.Labels = map[string]string{"rdma.dev/drain": "node"}
	drain.Annotations = map[string]string{
		"rdma.dev/drain-author": "jane", "rdma.dev/drain-reason": "riser swap, ticket 4711",
	}
	drain.CreationTimestamp, drain.Spec.DeviceSelector.Pool = at, new("gpu-14")
	for _, s := range f.published["gpu-15"].Slices() {
		s.Spec.Pool.ResourceSliceCount++ // the driver is publishing
	}
	f.Unpublish("gpu-16")
	f.Pods = slices.DeleteFunc(f.Pods, func(p corev1.Pod) bool { return strings.HasSuffix(p.Name, "gpu-16") })
	silent := driverPod("gpu-16")
	silent.Status.Conditions = nil
	f.Pods = append(f.Pods, silent)
	return f
}

// wire gives each HCA with a rail the leaf switch of its rail.
func (f *Fleet) wire(node, unit string) {
	for r := range 8 {
		f.attribute(node, f.rail(node, int64(r)), "leafSwitch", fmt.Sprintf("leaf-%s-r%d", unit, r))
	}
}

// rail returns the device of a node on a rail.
func (f *Fleet) rail(node string, rail int64) string {
	for _, s := range f.published[node].Slices() {
		for _, d := range s.Spec.Devices {
			if a := d.Attributes["rail"]; a.IntValue != nil && *a.IntValue == rail {
				return d.Name
			}
		}
	}
	f.Fatalf("node %s has no rail %d", node, rail)
	return ""
}

func (f *Fleet) attribute(node, device string, name resourceapi.QualifiedName, value string) {
	for _, s := range f.published[node].Slices() {
		for i := range s.Spec.Devices {
			if d := &s.Spec.Devices[i]; d.Name == device {
				d.Attributes[name] = resourceapi.DeviceAttribute{StringValue: &value}
			}
		}
	}
}

// worker adds a running pod of a job, with a claim for HCAs.
func (f *Fleet) worker(node, name, kind, job string, hcas int64) {
	request := controlplane.Request{Name: "nics", Class: "hca.rdma.dev", Count: hcas}
	claim := f.Allocate(node, name, controlplane.Claim(request))
	claim.Status.ReservedFor[0].Name = name
	f.add(Running(On(Pod(name), node)), name, kind, job)
}

// wait adds a pod whose claim, made from a template, has no devices.
func (f *Fleet) wait(pod corev1.Pod, name, kind, job string, hcas int64, selectors ...string) {
	claim := f.Pending(name, controlplane.Claim(controlplane.Request{
		Name: "nics", Class: "hca.rdma.dev", Count: hcas, Selectors: selectors,
	}))
	claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: name, UID: types.UID(name), Controller: new(true)}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "nics", ResourceClaimTemplateName: new("nics")}}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "nics", ResourceClaimName: &name}}
	f.add(pod, name, kind, job)
}

// add adds a pod of a job, if it has one.
func (f *Fleet) add(pod corev1.Pod, name, kind, job string) {
	pod.Name, pod.UID = name, types.UID(name)
	if job != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: job, Controller: new(true)}}
	}
	f.Pods = append(f.Pods, pod)
}
