// Package controlplane does in tests what the control plane of Kubernetes does with
// slices and claims.
//
// [Validate] has the API server's rules for slices. A [Cluster] stores them without
// the fields of features that it lacks, and allocates claims with the scheduler's own
// allocator, each beside all that were allocated before. What is allocated is carried
// from claim to claim as the scheduler's plugin does it
// (kubernetes/pkg/scheduler/framework/plugins/dynamicresources): devices, shares, and
// the capacity that they consume; access for monitoring takes nothing.
package controlplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Features are optional features of a cluster.
type Features = structured.Features

// V136 returns the features of Kubernetes 1.36 with its default feature gates.
func V136() Features {
	return Features{
		AdminAccess: true, PrioritizedList: true, PartitionableDevices: true,
		DeviceTaints: true, DeviceBindingAndStatus: true, ConsumableCapacity: true,
	}
}

// V134 returns those of Kubernetes 1.34 and 1.35.
func V134() Features { return Features{AdminAccess: true, PrioritizedList: true} }

// Cluster is one node with its pools, and the claims allocated from it.
type Cluster struct {
	Node     string
	Features Features
	Classes  []*resourceapi.DeviceClass
	// Claims are the allocated ones, by name.
	Claims map[string]*resourceapi.ResourceClaim

	pools map[string][]*resourceapi.ResourceSlice // by driver
	cache *cel.Cache
	uid   int
}

// Publish replaces the slices of a driver, whose pool is called like the node. The
// API server drops the fields of features that it does not have.
func (c *Cluster) Publish(driver string, published []resourceslice.Slice) {
	var objects []*resourceapi.ResourceSlice
	for i, s := range published {
		object := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &c.Node, Devices: s.Devices, SharedCounters: s.SharedCounters,
			Pool: resourceapi.ResourcePool{Name: c.Node, Generation: 1, ResourceSliceCount: int64(len(published))},
		}}
		object.Name = fmt.Sprintf("%05x-%s-%s", i, driver, c.Node)
		object = object.DeepCopy()
		Drop(c.Features, object)
		objects = append(objects, object)
	}
	c.Store(driver, objects)
}

// Store replaces the slices of a driver by objects of an API server.
func (c *Cluster) Store(driver string, objects []*resourceapi.ResourceSlice) {
	if c.pools == nil {
		c.pools = map[string][]*resourceapi.ResourceSlice{}
	}
	c.pools[driver] = objects
}

// Drop removes the fields of a slice that belong to features that a cluster lacks, without a word. It does what
// dropDisabledFields of the API server does
// (kubernetes/pkg/registry/resource/resourceslice/strategy.go).
func Drop(has Features, s *resourceapi.ResourceSlice) {
	if !has.PartitionableDevices {
		s.Spec.SharedCounters = nil
	}
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		if !has.DeviceTaints {
			d.Taints = nil
		}
		if !has.PartitionableDevices {
			d.ConsumesCounters = nil
		}
		if !has.ConsumableCapacity {
			d.AllowMultipleAllocations = nil
			for name, capacity := range d.Capacity {
				capacity.RequestPolicy = nil
				d.Capacity[name] = capacity
			}
		}
	}
}

// Slices returns what is published, as the API server has it.
func (c *Cluster) Slices() []*resourceapi.ResourceSlice {
	var out []*resourceapi.ResourceSlice
	for _, driver := range slices.Sorted(maps.Keys(c.pools)) {
		out = append(out, c.pools[driver]...)
	}
	return out
}

// Allocate allocates a claim. It returns its results, in order, nil if the claim has
// to wait.
func (c *Cluster) Allocate(t testing.TB, name string, devices resourceapi.DeviceClaim) []resourceapi.DeviceRequestAllocationResult {
	t.Helper()
	got, err := c.TryAllocate(name, devices)
	must.NoError(t, err)
	return got
}

// TryAllocate is Allocate with the errors that abort scheduling, as those of CEL.
func (c *Cluster) TryAllocate(name string, devices resourceapi.DeviceClaim) ([]resourceapi.DeviceRequestAllocationResult, error) {
	if c.Claims[name] != nil {
		return nil, fmt.Errorf("claim %s is allocated already", name)
	}
	ctx := context.Background()
	if c.cache == nil {
		c.cache = cel.NewCache(100, cel.Features{EnableConsumableCapacity: c.Features.ConsumableCapacity})
	}
	allocator, err := structured.NewAllocator(ctx, c.Features, c.allocated(), Classes(c.Classes), c.Slices(), c.cache)
	if err != nil {
		return nil, err
	}
	c.uid++
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(fmt.Sprint(c.uid))},
		Spec:       resourceapi.ResourceClaimSpec{Devices: devices},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Node}}
	allocations, err := allocator.Allocate(ctx, node, []*resourceapi.ResourceClaim{claim})
	if err != nil || len(allocations) == 0 {
		return nil, err
	}
	claim.Status.Allocation = &allocations[0]
	if c.Claims == nil {
		c.Claims = map[string]*resourceapi.ResourceClaim{}
	}
	c.Claims[name] = claim
	return allocations[0].Devices.Results, nil
}

// Release deletes a claim.
func (c *Cluster) Release(name string) { delete(c.Claims, name) }

// allocated sums up the claims, as foreachAllocatedDevice of the scheduler's plugin.
func (c *Cluster) allocated() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range c.Claims {
		for _, r := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case r.AdminAccess != nil && *r.AdminAccess:
			case c.Features.ConsumableCapacity && r.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
				if r.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
				}
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	return state
}

// Classes serves classes to the allocator.
type Classes []*resourceapi.DeviceClass

// List implements the allocator's lister.
func (l Classes) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

// Get returns a class, or the error of an API server that has none of the name.
func (l Classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, c := range l {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}
