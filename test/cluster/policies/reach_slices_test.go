package policies

import (
	"context"
	"fmt"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
)

type changeSlice = func(*resourceapi.ResourceSlice)

// ownSlice is one as the driver of nodeA publishes it, changed.
func ownSlice(changes ...changeSlice) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "00000-rdma.dev-node-a-"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driverName, NodeName: new(nodeA), Pool: resourceapi.ResourcePool{Name: nodeA, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "hca-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"ibdev": {StringValue: new("mlx5_0")}, "function": {StringValue: new("pf")}, "shared": {BoolValue: new(false)}, "ports": {IntValue: new(int64(1))},
			}}},
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func pool(name string) changeSlice {
	return func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Name = name }
}
func onNode(name string) changeSlice {
	return func(s *resourceapi.ResourceSlice) { s.Spec.NodeName = &name }
}
func named(name string) changeSlice {
	return func(s *resourceapi.ResourceSlice) { s.Name, s.GenerateName = name, "" }
}
func finalizer(s *resourceapi.ResourceSlice) { s.Finalizers = append(s.Finalizers, "example.com/keep") }
func owner(kind, name string) changeSlice {
	return func(s *resourceapi.ResourceSlice) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: "1", BlockOwnerDeletion: new(true)}}
	}
}

// device changes the device.
func device(change func(d *resourceapi.Device)) changeSlice {
	return func(s *resourceapi.ResourceSlice) { change(&s.Spec.Devices[0]) }
}

// attribute gives the device an attribute, or takes it away.
func attribute(name resourceapi.QualifiedName, value *resourceapi.DeviceAttribute) changeSlice {
	return device(func(d *resourceapi.Device) {
		if delete(d.Attributes, name); value != nil {
			d.Attributes[name] = *value
		}
	})
}

func evict(d *resourceapi.Device) {
	d.Taints = []resourceapi.DeviceTaint{{Key: "example.com/evict", Effect: resourceapi.DeviceTaintEffectNoExecute}}
}

func createSlice(s *resourceapi.ResourceSlice) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, as kubernetes.Interface) error {
		_, err := as.ResourceV1().ResourceSlices().Create(ctx, s, dryCreate)
		return err
	}
}

// storeSlices stores slices as an administrator: the driver's own, one that an administrator protects, those of others,
// and one of nodeA in the pool of nodeB.
func (r *reach) storeSlices(t *testing.T) {
	t.Helper()
	for name, s := range map[string]*resourceapi.ResourceSlice{
		"own": ownSlice(), "protected": ownSlice(finalizer), "other-node": ownSlice(onNode(nodeB), pool(nodeB)), "misplaced": ownSlice(pool(nodeB)),
		"other-driver": ownSlice(func(s *resourceapi.ResourceSlice) { s.Spec.Driver = otherDriver }),
	} {
		named(name)(s)
		stored, err := r.admin.ResourceV1().ResourceSlices().Create(t.Context(), s, metav1.CreateOptions{})
		must(t, err)
		r.slices[name] = stored
	}
}

// newSlices are attempts to create slices.
func (r *reach) newSlices() []attempt {
	nowhere := func(s *resourceapi.ResourceSlice) { s.Spec.NodeName = nil }
	onB := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{nodeB}}}}}}
	counters := func(s *resourceapi.ResourceSlice) {
		s.Spec.Devices, s.Spec.SharedCounters = nil, []resourceapi.CounterSet{{Name: "c", Counters: map[string]resourceapi.Counter{"n": {}}}}
	}
	const node, wrongPool, types = "may not write a ResourceSlice of another node", "may not write to pool", "attributes"
	const only, owners, finalizers = "exactly one of", "owned by its own node only", "may not add finalizers"
	create := func(name, want string, changes ...changeSlice) attempt {
		return attempt{"create " + name, nil, createSlice(ownSlice(changes...)), want}
	}
	by := func(as kubernetes.Interface, name, want string, changes ...changeSlice) attempt {
		return attempt{"create " + name, as, createSlice(ownSlice(changes...)), want}
	}
	return []attempt{
		create("its own", ""),
		create("its own with a taint", "", device(evict)),
		create("its own with counters", "", counters),
		create("its own with binding conditions", "", device(func(d *resourceapi.Device) {
			d.BindsToNode, d.BindingConditions, d.BindingFailureConditions = new(true), []string{"a"}, []string{"b"}
		})),
		create("its own of the last generation", "", func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Generation = math.MaxInt64 }),
		create("its own, owned by its node", "", owner("Node", nodeA)),
		create("one of another driver", "of driver gpu.example.com", func(s *resourceapi.ResourceSlice) { s.Spec.Driver = otherDriver }),
		create("one of another node", node, onNode(nodeB)),
		create("one of another node and pool", node, onNode(nodeB), pool(nodeB)),
		create("one in the pool of another node", wrongPool, pool(nodeB)),
		create("one in a pool below its node", wrongPool, pool(nodeA+"/"+nodeB)),
		create("taints in the pool of another node", wrongPool, pool(nodeB), device(evict), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Generation = math.MaxInt64 }),
		create("counters in the pool of another node", wrongPool, pool(nodeB), counters),
		create("one by a selector of nodes", node, nowhere, func(s *resourceapi.ResourceSlice) { s.Spec.NodeSelector = onB }),
		create("one by name and by a selector", only, func(s *resourceapi.ResourceSlice) { s.Spec.NodeSelector = onB }),
		create("one of all nodes", node, nowhere, func(s *resourceapi.ResourceSlice) { s.Spec.AllNodes = new(true) }),
		create("one by name and of all nodes", only, func(s *resourceapi.ResourceSlice) { s.Spec.AllNodes = new(true) }),
		create("devices of several nodes", node, nowhere, device(func(d *resourceapi.Device) { d.NodeName = new(nodeB) }),
			func(s *resourceapi.ResourceSlice) { s.Spec.PerDeviceNodeSelection = new(true) }),
		create("a device of another node", "nodeName", device(func(d *resourceapi.Device) { d.NodeName = new(nodeB) })),
		create("a device by a selector of nodes", "nodeSelector", device(func(d *resourceapi.Device) { d.NodeSelector = onB })),
		create("a device of all nodes", "allNodes", device(func(d *resourceapi.Device) { d.AllNodes = new(true) })),
		create("its own, owned by another node", owners, owner("Node", nodeB)),
		create("its own, owned by a namespace", owners, owner("Namespace", nodeA)),
		create("its own with a finalizer", finalizers, finalizer),
		create("an attribute of another type", types, attribute("shared", &resourceapi.DeviceAttribute{StringValue: new("no")})),
		create("a standard attribute of another type", types, attribute("resource.kubernetes.io/numaNode", &resourceapi.DeviceAttribute{StringValue: new("0")})),
		create("an attribute under its full name", types, attribute("rdma.dev/protocol", &resourceapi.DeviceAttribute{BoolValue: new(true)})),
		create("no attribute that is never absent", types, attribute("shared", nil)),
		create("no name of an HCA", types, attribute("ibdev", nil)),
		create("a group", "", attribute("ibdev", nil), attribute("function", nil), attribute("ports", nil), attribute("group", &resourceapi.DeviceAttribute{StringValue: new("all")})),
		by(r.loose, "one by a token without a pod", "names no node"),
		by(r.moved, "one by the driver in another namespace", ""),
		by(r.moved, "one of another node by the driver in another namespace", node, onNode(nodeB), pool(nodeB)),
		by(r.node, "one of its own by the kubelet", ""),
		by(r.node, "one of another node by the kubelet", "same NodeName", onNode(nodeB), pool(nodeB)),
		by(r.node, "one in the pool of another node by the kubelet", "is of the pool of its node", pool(nodeB)),
		by(r.admin, "one of all nodes by an administrator", "is of the pool of its node", nowhere, func(s *resourceapi.ResourceSlice) { s.Spec.AllNodes = new(true) }),
		by(r.admin, "one of another driver, of all nodes and in any pool, by an administrator", "", nowhere, pool("x"),
			func(s *resourceapi.ResourceSlice) { s.Spec.AllNodes, s.Spec.Driver = new(true), otherDriver }),
	}
}

// oldSlices are attempts on slices that there are.
func (r *reach) oldSlices() []attempt {
	update := func(name, of, want string, changes ...changeSlice) attempt {
		return attempt{"update " + name, nil, func(ctx context.Context, as kubernetes.Interface) error {
			s := r.slices[of].DeepCopy()
			for _, change := range changes {
				change(s)
			}
			_, err := as.ResourceV1().ResourceSlices().Update(ctx, s, dryUpdate)
			return err
		}, want}
	}
	remove := func(name, of, want string, as kubernetes.Interface) attempt {
		return attempt{"delete " + name, as, func(ctx context.Context, as kubernetes.Interface) error {
			return as.ResourceV1().ResourceSlices().Delete(ctx, of, dryDelete)
		}, want}
	}
	const node, immutable = "may not write a ResourceSlice of another node", "field is immutable"
	return []attempt{
		update("its own", "own", "", device(evict)),
		update("what an administrator protects", "protected", "", device(evict)),
		update("one of another node", "other-node", node, device(evict)),
		update("one of another node to its own", "other-node", immutable, onNode(nodeA), pool(nodeA)),
		update("one of another driver", "other-driver", "of driver gpu.example.com", device(evict)),
		update("one in the pool of another node", "misplaced", "may not write to pool", device(evict)),
		update("its own into another pool", "own", immutable, pool(nodeB)),
		update("its own to another node", "own", immutable, onNode(nodeB)),
		update("the owner of its own", "own", "owned by its own node only", owner("Node", nodeB)),
		update("the finalizers of its own", "own", "may not add finalizers", finalizer),
		update("an attribute to another type", "own", "attributes", attribute("function", &resourceapi.DeviceAttribute{IntValue: new(int64(1))})),
		remove("its own", "own", "", nil),
		// Whoever left it there, it does harm to the other node.
		remove("one of its own in the pool of another node", "misplaced", "", nil),
		remove("one of another node", "other-node", node, nil),
		remove("one of another driver", "other-driver", "of driver gpu.example.com", nil),
		remove("one by a token without a pod", "own", "names no node", r.loose),
		{"patch its own", nil, func(ctx context.Context, as kubernetes.Interface) error {
			_, err := as.ResourceV1().ResourceSlices().Patch(ctx, "own", "application/merge-patch+json", []byte(`{}`), dryPatch)
			return err
		}, "cannot patch"},
	}
}

// absurdGeneration: the API server takes a slice of the last generation in the pool of a driver, and the driver is not stopped.
func (r *reach) absurdGeneration(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done, wanted := make(chan struct{}), []resourceslice.Slice{{Devices: ownSlice().Spec.Devices}}
	p := publisher.New(publisher.Config{Client: r.driver, Driver: driverName, Node: nodeA, Report: func(_ context.Context, err error) { t.Log(err) }})
	go func() { defer close(done); p.Run(ctx) }()
	defer func() { cancel(); <-done }()
	whole := func(devices int) error {
		list, err := r.admin.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeA + ",spec.driver=" + driverName})
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			if s.DeletionTimestamp == nil && (len(s.Spec.Devices) != devices || s.Spec.Pool.Name != nodeA || s.Spec.Pool.Generation > 1000) {
				return fmt.Errorf("published is %s of %+v with %d devices", s.Name, s.Spec.Pool, len(s.Spec.Devices))
			}
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("nothing is published")
		}
		return nil
	}
	p.Publish(wanted)
	drivertest.Eventually(t, func() error { return whole(1) }) // the misplaced slice is gone then
	poison := ownSlice(named("00000-poison"), func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Generation = math.MaxInt64 })
	_, err := r.admin.ResourceV1().ResourceSlices().Create(ctx, poison, metav1.CreateOptions{})
	must(t, err)
	drivertest.Eventually(t, func() error { return whole(1) })
	second := wanted[0].Devices[0].DeepCopy()
	second.Name = "hca-1"
	p.Publish([]resourceslice.Slice{{Devices: append(wanted[0].Devices[:1:1], *second)}})
	drivertest.Eventually(t, func() error { return whole(2) })
}
