package model

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// View is a cluster with the indexes that all questions need.
type View struct {
	Cluster  *Cluster
	Features structured.Features
	CEL      expressions
	Slices   []*resourceapi.ResourceSlice // of the current generations, with the taints of rules
	Devices  []*Device                    // of complete pools, by node, in the order of allocation
	// Known has the devices by their names, also those of incomplete pools.
	Known    map[structured.DeviceID]*Device
	pool     map[poolID]*pool
	taken    structured.AllocatedState // by all claims
	Partial  []string                  // pools with missing slices: the scheduler allocates nothing from them
	Invalid  []string                  // pools that contradict themselves: nor from these
	Holdings Holdings
	Classes  ClassLister
	Claims   map[types.NamespacedName]*resourceapi.ResourceClaim
	// extended is made by ExtendedClasses.
	extended *extendedresourcecache.ExtendedResourceCache
	Nodes    map[string]*corev1.Node
	Drivers  map[string]*corev1.Pod // by node
	Guessed  bool                   // the nodes come from slices, and only their names are known
}

// poolID identifies a pool. pool has its slices and devices.
type (
	poolID struct{ driver, pool string }
	pool   struct {
		slices  []*resourceapi.ResourceSlice
		devices []*Device
		invalid bool
	}
)

// Device is a device with the slice that publishes it.
type Device struct {
	*resourceapi.Device
	ID    structured.DeviceID
	Slice *resourceapi.ResourceSlice
	rules []*resourceapi.DeviceTaintRule // those of the last taints
}

// View indexes the cluster.
func (c *Cluster) View() *View {
	v := &View{
		Cluster: c, Features: featuresOf(c), Holdings: Holdings{},
		Classes: ClassLister{}, Claims: map[types.NamespacedName]*resourceapi.ResourceClaim{},
		Nodes: map[string]*corev1.Node{}, pool: map[poolID]*pool{},
		Known: map[structured.DeviceID]*Device{},
	}
	v.Drivers, _ = c.driverPods()
	v.CEL.Cache = cel.NewCache(1000, cel.Features{
		EnableConsumableCapacity: v.Features.ConsumableCapacity, EnableListTypeAttributes: v.Features.ListTypeAttributes,
	})
	for i := range c.Classes {
		v.Classes[c.Classes[i].Name] = &c.Classes[i]
	}
	for i := range c.Claims {
		v.Holdings.add(&c.Claims[i])
		v.Claims[NameOf(&c.Claims[i])] = &c.Claims[i]
	}
	v.taken = v.Holdings.allocated(nil)
	v.pools()
	v.knowNodes()
	v.Invalid = invalidPools(v)
	return v
}

// knowNodes indexes the nodes. If the user may not read nodes, it takes the names of the nodes
// with devices from the slices.
func (v *View) knowNodes() {
	if len(v.Cluster.Nodes) == 0 {
		known := *v.Cluster
		names := map[string]bool{"": true}
		for _, s := range v.Slices {
			if name := ptr.Deref(s.Spec.NodeName, ""); !names[name] {
				names[name] = true
				known.Nodes = append(known.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
		}
		v.Cluster, v.Guessed = &known, true
	}
	for i := range v.Cluster.Nodes {
		v.Nodes[v.Cluster.Nodes[i].Name] = &v.Cluster.Nodes[i]
	}
}

// pools finds the devices that can be allocated: those of the newest generation of
// each pool that has all of its slices.
func (v *View) pools() {
	newest := map[poolID]int64{}
	for i := range v.Cluster.Slices {
		s := &v.Cluster.Slices[i]
		newest[idOf(s)] = max(newest[idOf(s)], s.Spec.Pool.Generation)
	}
	count := map[poolID]int64{}
	for i := range v.Cluster.Slices {
		if s := &v.Cluster.Slices[i]; s.Spec.Pool.Generation == newest[idOf(s)] {
			v.Slices = append(v.Slices, withRules(s, v.Cluster.Rules))
			count[idOf(s)]++
		}
	}
	slices.SortFunc(v.Slices, func(a, b *resourceapi.ResourceSlice) int {
		return cmp.Or(cmp.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name),
			cmp.Compare(a.Spec.Driver, b.Spec.Driver), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range v.Slices {
		devices := v.devicesOf(s)
		if n := s.Spec.Pool.ResourceSliceCount; count[idOf(s)] != n {
			v.Partial = AppendNew(v.Partial,
				fmt.Sprintf("%s of driver %s: %d of %d slices", s.Spec.Pool.Name, s.Spec.Driver, count[idOf(s)], n))
			continue
		}
		p := v.pool[idOf(s)]
		if p == nil {
			p = &pool{}
			v.pool[idOf(s)] = p
		}
		p.slices = append(p.slices, s)
		p.devices, v.Devices = append(p.devices, devices...), append(v.Devices, devices...)
	}
}

// devicesOf makes the devices of a slice known.
func (v *View) devicesOf(s *resourceapi.ResourceSlice) (out []*Device) {
	for i := range s.Spec.Devices {
		id := structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name)
		v.Known[id] = &Device{&s.Spec.Devices[i], id, s, rulesOf(v.Cluster.Rules, s, s.Spec.Devices[i].Name)}
		out = append(out, v.Known[id])
	}
	return out
}

func idOf(s *resourceapi.ResourceSlice) poolID { return poolID{s.Spec.Driver, s.Spec.Pool.Name} }

// On reports whether a device is available on a node.
func (d *Device) On(node *corev1.Node, features structured.Features) bool {
	spec := &d.Slice.Spec
	name, all, selector := spec.NodeName, spec.AllNodes, spec.NodeSelector
	if spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection {
		name, all, selector = d.NodeName, d.AllNodes, d.NodeSelector
	}
	match, err := structured.NodeMatches(features, node, ptr.Deref(name, ""), ptr.Deref(all, false), selector)
	return err == nil && match
}

// Node returns the node of a device that only one node has.
func (d *Device) Node() string {
	if d.Slice.Spec.NodeName != nil {
		return *d.Slice.Spec.NodeName
	}
	return ptr.Deref(d.NodeName, "")
}

// String names a device by its pool, whose name is that of the node.
func (d *Device) String() string { return DeviceName(d.ID) }

// DeviceName names a device by its pool, and by its driver if that is not this one.
func DeviceName(id structured.DeviceID) string {
	name := id.Pool.String() + "/" + id.Device.String()
	if id.Driver.String() != rdma.Domain {
		name = id.Driver.String() + "/" + name
	}
	return name
}

// NameOf returns the name of an object as a key.
func NameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// ExtendedClasses finds the DeviceClasses of extended resources.
func (v *View) ExtendedClasses() *extendedresourcecache.ExtendedResourceCache {
	if v.extended == nil {
		v.extended = extendedresourcecache.NewExtendedResourceCache(klog.Background())
		for i := range v.Cluster.Classes {
			v.extended.OnAdd(&v.Cluster.Classes[i], true)
		}
	}
	return v.extended
}
