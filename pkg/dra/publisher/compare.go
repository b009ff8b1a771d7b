package publisher

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// spec returns the wanted content of a slice.
func (r *pass) spec(i int) resourceapi.ResourceSliceSpec {
	s := &r.wanted[i]
	return resourceapi.ResourceSliceSpec{
		Driver: r.cfg.Driver, Pool: r.pool, NodeName: &r.cfg.Node,
		Devices: s.Devices, SharedCounters: s.SharedCounters, PerDeviceNodeSelection: s.PerDeviceNodeSelection,
		PartitionTypeAttribute: s.PartitionTypeAttribute, SkipNodeOperations: s.SkipNodeOperations,
	}
}

// same reports whether a and b are the same object of the API server, in the same version.
func same(a, b *resourceapi.ResourceSlice) bool {
	return a.Name == b.Name && a.ResourceVersion == b.ResourceVersion
}

// sameSpec reports whether two contents are the same, except for the times of taints.
func sameSpec(a, b *resourceapi.ResourceSliceSpec) bool {
	if !resourceslice.DevicesDeepEqual(a.Devices, b.Devices) {
		return false
	}
	x, y := *a, *b
	x.Devices, y.Devices = nil, nil
	return equality.Semantic.DeepEqual(x, y)
}

// sameLayout reports whether two versions of a slice have the same devices in the same order, with the same counters.
// Other slices may depend on these.
func sameLayout(a, b *resourceapi.ResourceSliceSpec) bool {
	return a.Pool == b.Pool && equality.Semantic.DeepEqual(a.SharedCounters, b.SharedCounters) &&
		slices.EqualFunc(a.Devices, b.Devices, func(x, y resourceapi.Device) bool {
			return x.Name == y.Name && equality.Semantic.DeepEqual(x.ConsumesCounters, y.ConsumesCounters)
		})
}
