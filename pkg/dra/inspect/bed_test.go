package inspect_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/inspect"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

const (
	gpuDriver = "gpu.example.com"
	header    = "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n"
	rdmaAttr  = `device.attributes["rdma.dev"]`
)

// bed is a cluster of fixture machines, whose claims the scheduler's allocator serves.
type bed struct {
	testing.TB
	inspect.Cluster
	nodes  map[string]*controlplane.Cluster
	claims map[string]*resourceapi.ResourceClaim // by name
}

func newBed(t testing.TB) *bed {
	b := &bed{TB: t, nodes: map[string]*controlplane.Cluster{}, claims: map[string]*resourceapi.ResourceClaim{}}
	for _, c := range controlplane.ChartClasses(t) {
		b.Classes = append(b.Classes, *c)
	}
	return b
}

// node adds a node with the HCAs and GPUs of a machine, published as a policy says.
func (b *bed) node(name, machine, policyText string) {
	b.Helper()
	cfg, err := policy.Parse([]byte(header + policyText))
	if err != nil {
		b.Fatal(err)
	}
	snap := rdmatest.Snapshot(b, machine)
	decided := cfg.Apply(snap, policy.State{})
	node := &controlplane.Cluster{Node: name, Features: controlplane.V136()}
	b.nodes[name] = node
	node.Publish(plan.DriverName, decided.Slices())
	m, err := fixture.Load(machine)
	if err != nil {
		b.Fatal(err)
	}
	node.Publish(gpuDriver, gpus(topology.Discover(m.OpenFS(), snap)))
	b.Nodes = append(b.Nodes, corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "machine": machine}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.37.2"},
		},
	})
	b.Pods = append(b.Pods, driverPod(name))
}

func driverPod(node string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dra-driver-rdma", Name: "dra-driver-rdma-" + node, Labels: map[string]string{
			"app.kubernetes.io/name": "dra-driver-rdma", "app.kubernetes.io/version": "0.1.0",
		}},
		Spec:   corev1.PodSpec{NodeName: node},
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

// allocate gives a claim to a pod on a node.
func (b *bed) allocate(node, name string, devices resourceapi.DeviceClaim) *resourceapi.ResourceClaim {
	b.Helper()
	b.nodes[node].Classes = b.classes()
	if got := b.nodes[node].Allocate(b.TB, name, devices); got == nil {
		b.Fatalf("claim %s does not fit on %s", name, node)
	}
	claim := b.nodes[node].Claims[name]
	claim.UID = types.UID(name)
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name + "-pod"}}
	b.claims[name] = claim
	return claim
}

// pending adds a claim without devices.
func (b *bed) pending(name string, devices resourceapi.DeviceClaim) *resourceapi.ResourceClaim {
	b.claims[name] = &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       resourceapi.ResourceClaimSpec{Devices: devices},
	}
	return b.claims[name]
}

func (b *bed) classes() []*resourceapi.DeviceClass {
	var out []*resourceapi.DeviceClass
	for i := range b.Classes {
		out = append(out, &b.Classes[i])
	}
	return out
}

func (b *bed) class(name string, selectors ...string) *resourceapi.DeviceClass {
	b.Classes = append(b.Classes, *controlplane.Class(name, selectors...))
	return &b.Classes[len(b.Classes)-1]
}

// taint sets a taint on a device.
func (b *bed) taint(node, device, key string, effect resourceapi.DeviceTaintEffect) {
	b.Helper()
	for _, s := range b.nodes[node].Slices() {
		for i := range s.Spec.Devices {
			if d := &s.Spec.Devices[i]; d.Name == device {
				d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: key, Effect: effect})
				return
			}
		}
	}
	b.Fatalf("node %s has no device %s", node, device)
}

// cluster is what an API server would list.
func (b *bed) cluster() *inspect.Cluster {
	c := b.Cluster
	for _, name := range slices.Sorted(maps.Keys(b.nodes)) {
		for _, s := range b.nodes[name].Slices() {
			c.Slices = append(c.Slices, *s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.claims)) {
		c.Claims = append(c.Claims, *b.claims[name])
	}
	return &c
}

// pod makes a pod that waits for claims.
func pod(claims ...string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trainer", UID: "trainer"},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, name := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: new(name)})
	}
	return p
}

// unschedulable adds what the scheduler says.
func unschedulable(p corev1.Pod, message string) corev1.Pod {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	})
	return p
}

// on puts a pod on a node.
func on(p corev1.Pod, node string) corev1.Pod {
	p.Spec.NodeName = node
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
	return p
}

func running(p corev1.Pod) corev1.Pod {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

func (b *bed) why(q inspect.Question) *inspect.Answer {
	b.Helper()
	answer, err := b.cluster().Why(context.Background(), q)
	if err != nil {
		b.Fatal(err)
	}
	return answer
}
