// Package fleet is a cluster of fixture machines for tests: nodes, the slices that the
// drivers of HCAs and GPUs publish of them, and claims that the scheduler's own
// allocator has served. What an API server would list of it is in [Fleet.Lists];
// [Fleet.Serve] is a server that lists it.
package fleet

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

const (
	// GPUDriver publishes the GPUs of the machines.
	GPUDriver = "gpu.example.com"
	// RDMA are the attributes of an HCA, in an expression.
	RDMA = `device.attributes["rdma.dev"]`

	header = "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n"
)

// created is when all claims were made.
var created = metav1.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)

// Fleet is a cluster of fixture machines, whose claims the scheduler's allocator serves.
type Fleet struct {
	testing.TB
	Nodes   []corev1.Node
	Pods    []corev1.Pod
	Classes []resourceapi.DeviceClass
	Events  []corev1.Event
	Rules   []resourceapi.DeviceTaintRule
	// ConfigMaps may be results of tests.
	ConfigMaps []corev1.ConfigMap
	// Features are those of the API server.
	Features controlplane.Features
	// Templates are those of ResourceClaims.
	Templates []resourceapi.ResourceClaimTemplate

	// Claims are the claims by name.
	Claims map[string]*resourceapi.ResourceClaim

	published map[string]*controlplane.Cluster
}

// New returns a cluster with the classes of the chart, and no node.
func New(t testing.TB) *Fleet {
	f := &Fleet{
		TB: t, Features: controlplane.V136(), published: map[string]*controlplane.Cluster{},
		Claims: map[string]*resourceapi.ResourceClaim{},
	}
	for _, c := range controlplane.ChartClasses(t) {
		f.Classes = append(f.Classes, *c)
	}
	return f
}

// Node adds a node with the HCAs and GPUs of a machine, published as a policy says.
func (f *Fleet) Node(name, machine, policyText string) {
	f.Helper()
	cfg, err := policy.Parse([]byte(header + policyText))
	if err != nil {
		f.Fatal(err)
	}
	snap := rdmatest.Snapshot(f, machine)
	decided := cfg.Apply(snap, policy.State{
		NoCounters: !f.Features.PartitionableDevices, NoConsumable: !f.Features.ConsumableCapacity,
	})
	node := &controlplane.Cluster{Node: name, Features: f.Features}
	f.published[name] = node
	node.Publish(rdma.Domain, decided.Slices())
	m, err := fixture.Load(machine)
	if err != nil {
		f.Fatal(err)
	}
	node.Publish(GPUDriver, gpus(topology.Discover(m.OpenFS(), snap)))
	f.Nodes = append(f.Nodes, corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "machine": machine}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: room, Capacity: room,
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2"},
		},
	})
	f.Pods = append(f.Pods, driverPod(name))
}

// room is what a node has beside its devices.
var room = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110")}

// Unpublish removes the slices of a node.
func (f *Fleet) Unpublish(node string) { delete(f.published, node) }

func driverPod(node string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dra-driver-rdma", Name: "dra-driver-rdma-" + node, Labels: map[string]string{
			"app.kubernetes.io/name": "dra-driver-rdma", "app.kubernetes.io/version": "0.1.0",
		}, OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "dra-driver-rdma", Controller: new(true)}}},
		Spec:   corev1.PodSpec{NodeName: node, ServiceAccountName: "dra-driver-rdma"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// gpus is what a GPU driver publishes: the standard attributes.
func gpus(host *topology.Topology) []resourceslice.Slice {
	var s resourceslice.Slice
	for i, d := range host.Accelerators() {
		device := resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			deviceattribute.StandardDeviceAttributePCIBusID: {StringValue: new(d.Address)},
			deviceattribute.StandardDeviceAttributePCIeRoot: {StringValue: new(d.Root)},
			"productName": {StringValue: new("NVIDIA H100 80GB HBM3")},
		}}
		if d.NUMANode != nil {
			device.Attributes[deviceattribute.StandardDeviceAttributeNUMANode] = resourceapi.DeviceAttribute{IntValue: new(int64(*d.NUMANode))}
		}
		s.Devices = append(s.Devices, device)
	}
	return []resourceslice.Slice{s}
}

// Allocate gives a claim to a pod on a node.
func (f *Fleet) Allocate(node, name string, devices resourceapi.DeviceClaim) *resourceapi.ResourceClaim {
	f.Helper()
	f.published[node].Classes = f.classes()
	if got := f.published[node].Allocate(f.TB, name, devices); got == nil {
		f.Fatalf("claim %s does not fit on %s", name, node)
	}
	claim := f.published[node].Claims[name]
	claim.UID, claim.CreationTimestamp = types.UID(name), created
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name + "-pod"}}
	f.Claims[name] = claim
	return claim
}

// Pending adds a claim without devices.
func (f *Fleet) Pending(name string, devices resourceapi.DeviceClaim) *resourceapi.ResourceClaim {
	f.Claims[name] = &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: created},
		Spec:       resourceapi.ResourceClaimSpec{Devices: devices},
	}
	return f.Claims[name]
}

func (f *Fleet) classes() []*resourceapi.DeviceClass {
	var out []*resourceapi.DeviceClass
	for i := range f.Classes {
		out = append(out, &f.Classes[i])
	}
	return out
}

func (f *Fleet) Class(name string, selectors ...string) *resourceapi.DeviceClass {
	f.Classes = append(f.Classes, *controlplane.Class(name, selectors...))
	return &f.Classes[len(f.Classes)-1]
}

// Taint sets a taint on a device, and returns it.
func (f *Fleet) Taint(node, device, key string, effect resourceapi.DeviceTaintEffect) *resourceapi.DeviceTaint {
	f.Helper()
	for _, s := range f.published[node].Slices() {
		for i := range s.Spec.Devices {
			if d := &s.Spec.Devices[i]; d.Name == device {
				d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: key, Effect: effect})
				return &d.Taints[len(d.Taints)-1]
			}
		}
	}
	f.Fatalf("node %s has no device %s", node, device)
	return nil
}

// Rule adds a DeviceTaintRule, which selects all devices of a driver.
func (f *Fleet) Rule(name, driver, key string, effect resourceapi.DeviceTaintEffect) *resourceapi.DeviceTaintRule {
	f.Rules = append(f.Rules, resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &driver},
			Taint:          resourceapi.DeviceTaint{Key: key, Effect: effect},
		},
	})
	return &f.Rules[len(f.Rules)-1]
}

// Lists are what an API server would list.
type Lists struct {
	Nodes   []corev1.Node
	Pods    []corev1.Pod
	Slices  []resourceapi.ResourceSlice
	Claims  []resourceapi.ResourceClaim
	Classes []resourceapi.DeviceClass
	Events  []corev1.Event
	Rules   []resourceapi.DeviceTaintRule
}

// Lists lists the cluster.
func (f *Fleet) Lists() Lists {
	c := Lists{Nodes: f.Nodes, Pods: f.Pods, Classes: f.Classes, Events: f.Events, Rules: f.Rules}
	for _, name := range slices.Sorted(maps.Keys(f.published)) {
		for _, s := range f.published[name].Slices() {
			c.Slices = append(c.Slices, *s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Claims)) {
		c.Claims = append(c.Claims, *f.Claims[name])
	}
	return c
}

// Pod makes a pod that waits for claims.
func Pod(claims ...string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trainer", UID: "trainer"},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, name := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: new(name)})
	}
	return p
}

// Unschedulable adds what the scheduler says.
func Unschedulable(p corev1.Pod, message string) corev1.Pod {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	})
	return p
}

// On puts a pod on a node.
func On(p corev1.Pod, node string) corev1.Pod {
	p.Spec.NodeName = node
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
	return p
}

func Running(p corev1.Pod) corev1.Pod {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	return p
}

// Objects are the nodes, slices and classes as a list that kubectl applies.
func (f *Fleet) Objects() map[string]any {
	l := f.Lists()
	var items []any
	for i := range l.Nodes {
		l.Nodes[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
		items = append(items, l.Nodes[i])
	}
	for i := range l.Slices {
		l.Slices[i].TypeMeta = metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}
		items = append(items, l.Slices[i])
	}
	for i := range l.Classes {
		l.Classes[i].TypeMeta = metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "DeviceClass"}
		items = append(items, l.Classes[i])
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}
