package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// driver is the driver whose devices the package lists. Claims may request devices of other drivers,
// and Why explains those too.
const driver = rdma.Domain

// Cluster has the objects of a cluster. The package does not change them.
type Cluster struct {
	Nodes   []corev1.Node
	Pods    []corev1.Pod
	Slices  []resourceapi.ResourceSlice
	Claims  []resourceapi.ResourceClaim
	Classes []resourceapi.DeviceClass
	// Rules are the DeviceTaintRules. The scheduler adds their taints to the devices that they select.
	Rules []resourceapi.DeviceTaintRule
	// UserPods are pods that may have claims, nil if they were not read. Pods are those of the driver.
	UserPods []corev1.Pod
	// Templates are nil if they were not read. Events are Warnings about pods, all of one
	// node, or those of drivers that publish nothing.
	Templates []resourceapi.ResourceClaimTemplate
	Events    []corev1.Event
	// Now is when it was read.
	Now time.Time
	// Unread is what could not be read. A kind that is there may exist in any number, whatever its list says.
	Unread UnreadKinds
	// DriverNamespace is the namespace of the driver if the user names it, else "": see driverPods.
	DriverNamespace string
}

// Kind is a kind of object that questions need.
type Kind string

// The kinds.
const (
	Nodes   Kind = "nodes"
	Pods    Kind = "pods" // of the driver
	Slices  Kind = "resourceslices"
	Claims  Kind = "resourceclaims"
	Classes Kind = "deviceclasses"
	// OwnClaims are those of the namespace that a question is about, Claims those of all namespaces.
	OwnClaims Kind = "resourceclaims of the namespace"
	// Rules are read in the version that the API server serves, and are never what a question is about.
	Rules Kind = "devicetaintrules"
	// UserPods are all pods, or those that a reader selects.
	UserPods Kind = "pods of users"
	// Templates are ResourceClaimTemplates; Events are Warnings about pods.
	Templates Kind = "resourceclaimtemplates"
	Events    Kind = "events"
	// NodeEvents are those of one node. The driver writes them into the namespace default.
	NodeEvents Kind = "events of the node"
	// EmptyNodes are the events of drivers that publish nothing.
	EmptyNodes Kind = "events of nodes without devices"
)

// Unread is a kind of object that could not be read, or not all of it. Why is a sentence with the reason.
type Unread struct {
	Kind Kind
	Why  string
}

// UnreadKinds are the kinds that could not be read.
type UnreadKinds []Unread

// has reports whether one of some kinds of object could not be read.
func (l UnreadKinds) has(kinds ...Kind) bool {
	return slices.ContainsFunc(l, func(u Unread) bool { return slices.Contains(kinds, u.Kind) })
}

// unseen is the end of a sentence that would be right if none of some kinds were unread: it names those that were.
func (l UnreadKinds) unseen(kinds ...Kind) string {
	var names []string
	for _, kind := range kinds {
		if l.has(kind) {
			names = append(names, string(kind))
		}
	}
	if names == nil {
		return ""
	}
	return ", as far as can be seen without " + strings.Join(names, " and ")
}

// Why returns what could not be read, and why: one sentence each.
func (l UnreadKinds) Why() (out []string) {
	for _, u := range l {
		out = append(out, u.Why)
	}
	return out
}

// view is a cluster with the indexes that all questions need.
type view struct {
	*Cluster
	features structured.Features
	cel      expressions
	slices   []*resourceapi.ResourceSlice // of the current generations, with the taints of rules
	devices  []*device                    // of complete pools, by node, in the order of allocation
	// known has the devices by their names.
	known   map[structured.DeviceID]*device
	pool    map[poolID]*pool
	taken   structured.AllocatedState // by all claims
	partial []string                  // pools with missing slices: the scheduler allocates nothing from them
	invalid []string                  // pools that contradict themselves: nor from these
	holders holdings
	classes classes
	claims  map[types.NamespacedName]*resourceapi.ResourceClaim
	// extended is made by extendedClasses.
	extended *extendedresourcecache.ExtendedResourceCache
	nodes    map[string]*corev1.Node
	drivers  map[string]*corev1.Pod // by node
	guessed  bool                   // the nodes come from slices, and only their names are known
}

// poolID identifies a pool. pool has its slices and devices.
type (
	poolID struct{ driver, pool string }
	pool   struct {
		slices  []*resourceapi.ResourceSlice
		devices []*device
		invalid bool
	}
)

// device is a device with the slice that publishes it.
type device struct {
	*resourceapi.Device
	id    structured.DeviceID
	slice *resourceapi.ResourceSlice
	rules []*resourceapi.DeviceTaintRule // those of the last taints
}

func (c *Cluster) view() *view {
	v := &view{
		Cluster: c, features: featuresOf(c), holders: holdings{},
		classes: classes{}, claims: map[types.NamespacedName]*resourceapi.ResourceClaim{},
		nodes: map[string]*corev1.Node{}, pool: map[poolID]*pool{},
		known: map[structured.DeviceID]*device{},
	}
	v.drivers, _ = c.driverPods()
	v.cel.Cache = cel.NewCache(1000, cel.Features{
		EnableConsumableCapacity: v.features.ConsumableCapacity, EnableListTypeAttributes: v.features.ListTypeAttributes,
	})
	for i := range c.Classes {
		v.classes[c.Classes[i].Name] = &c.Classes[i]
	}
	for i := range c.Claims {
		v.holders.add(&c.Claims[i])
		v.claims[nameOf(&c.Claims[i])] = &c.Claims[i]
	}
	v.taken = v.holders.allocated(nil)
	v.pools()
	v.knowNodes()
	v.invalid = invalidPools(v)
	return v
}

// knowNodes indexes the nodes. If the user may not read nodes, it takes the names of the nodes
// with devices from the slices.
func (v *view) knowNodes() {
	if len(v.Nodes) == 0 {
		known := *v.Cluster
		names := map[string]bool{"": true}
		for _, s := range v.slices {
			if name := deref(s.Spec.NodeName); !names[name] {
				names[name] = true
				known.Nodes = append(known.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
		}
		v.Cluster, v.guessed = &known, true
	}
	for i := range v.Nodes {
		v.nodes[v.Nodes[i].Name] = &v.Nodes[i]
	}
}

// pools finds the devices that can be allocated: those of the newest generation of
// each pool that has all of its slices.
func (v *view) pools() {
	newest := map[poolID]int64{}
	for i := range v.Slices {
		s := &v.Slices[i]
		newest[idOf(s)] = max(newest[idOf(s)], s.Spec.Pool.Generation)
	}
	count := map[poolID]int64{}
	for i := range v.Slices {
		if s := &v.Slices[i]; s.Spec.Pool.Generation == newest[idOf(s)] {
			v.slices = append(v.slices, withRules(s, v.Rules))
			count[idOf(s)]++
		}
	}
	slices.SortFunc(v.slices, func(a, b *resourceapi.ResourceSlice) int {
		return cmp.Or(cmp.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name),
			cmp.Compare(a.Spec.Driver, b.Spec.Driver), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range v.slices {
		if n := s.Spec.Pool.ResourceSliceCount; count[idOf(s)] != n {
			v.partial = appendNew(v.partial,
				fmt.Sprintf("%s of driver %s: %d of %d slices", s.Spec.Pool.Name, s.Spec.Driver, count[idOf(s)], n))
			continue
		}
		p := v.pool[idOf(s)]
		if p == nil {
			p = &pool{}
			v.pool[idOf(s)] = p
		}
		p.slices = append(p.slices, s)
		for i := range s.Spec.Devices {
			id := structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name)
			d := &device{&s.Spec.Devices[i], id, s, rulesOf(v.Rules, s, s.Spec.Devices[i].Name)}
			p.devices, v.devices, v.known[id] = append(p.devices, d), append(v.devices, d), d
		}
	}
}

func idOf(s *resourceapi.ResourceSlice) poolID { return poolID{s.Spec.Driver, s.Spec.Pool.Name} }

// on reports whether a device is available on a node.
func (d *device) on(node *corev1.Node, features structured.Features) bool {
	spec := &d.slice.Spec
	name, all, selector := spec.NodeName, spec.AllNodes, spec.NodeSelector
	if spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection {
		name, all, selector = d.NodeName, d.AllNodes, d.NodeSelector
	}
	match, err := structured.NodeMatches(features, node, deref(name), deref(all), selector)
	return err == nil && match
}

// node returns the node of a device that only one node has.
func (d *device) node() string {
	if d.slice.Spec.NodeName != nil {
		return *d.slice.Spec.NodeName
	}
	return deref(d.NodeName)
}

// String names a device by its pool, whose name is that of the node.
func (d *device) String() string { return deviceName(d.id) }

func deviceName(id structured.DeviceID) string {
	name := id.Pool.String() + "/" + id.Device.String()
	if id.Driver.String() != driver {
		name = id.Driver.String() + "/" + name
	}
	return name
}

// nameOf returns the name of an object as a key.
func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// claimName returns namespace/name.
func claimName(c *resourceapi.ResourceClaim) string { return c.Namespace + "/" + c.Name }

func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
