package publisher

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// spec returns the wanted content of a slice.
func (r *pass) spec(i int) resourceapi.ResourceSliceSpec {
	s := &r.wanted[i]
	return resourceapi.ResourceSliceSpec{
		Driver: r.publisher.cfg.Driver, Pool: r.pool, NodeName: &r.publisher.cfg.Node,
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

// ChangedError says that the API server has stored a slice with content that was not sent. A mutating admission policy
// or webhook does that. A feature gate that is off only removes fields.
type ChangedError struct {
	Name  string // of the slice
	Field string // the first one that was added or changed, as a path
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("resource slice %s: the API server has stored another %s than the driver sent; "+
		"look for a mutating admission policy or webhook that matches resourceslices", e.Name, e.Field)
}

// changedField returns the path of the first field that was added or changed on the way to the store, "" for none. The
// API server itself adds the times of taints.
func changedField(sent, stored *resourceapi.ResourceSliceSpec) string {
	of := func(s *resourceapi.ResourceSliceSpec) any {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
		utilruntime.Must(err) // it is a type of the API
		return object
	}
	return changed("spec", of(sent), of(stored))
}

func changed(path string, sent, stored any) string {
	switch stored := stored.(type) {
	case map[string]any:
		sent, _ := sent.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(stored)) {
			if at := changed(path+"."+key, sent[key], stored[key]); at != "" && key != "timeAdded" {
				return at
			}
		}
	case []any:
		sent, _ := sent.([]any)
		if len(stored) < len(sent) { // what was removed moves the others
			return ""
		}
		for i := range stored {
			var was any
			if i < len(sent) {
				was = sent[i]
			}
			if at := changed(fmt.Sprintf("%s[%d]", path, i), was, stored[i]); at != "" {
				return at
			}
		}
	default:
		if !reflect.DeepEqual(sent, stored) {
			return path
		}
	}
	return ""
}
