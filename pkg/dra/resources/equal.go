package resources

import (
	"maps"
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// Equal reports whether two publications are the same. On a node with a thousand
// devices most of what there is to compare is the attributes, which a comparison by
// reflection takes ten times as long for.
func Equal(a, b resourceslice.DriverResources) bool {
	return maps.EqualFunc(a.Pools, b.Pools, func(a, b resourceslice.Pool) bool {
		if !slices.EqualFunc(a.Slices, b.Slices, equalSlices) {
			return false
		}
		a.Slices, b.Slices = nil, nil
		return equality.Semantic.DeepEqual(a, b)
	})
}

func equalSlices(a, b resourceslice.Slice) bool {
	if !slices.EqualFunc(a.Devices, b.Devices, equalDevices) {
		return false
	}
	a.Devices, b.Devices = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

func equalDevices(a, b resourceapi.Device) bool {
	if a.Name != b.Name || !maps.EqualFunc(a.Attributes, b.Attributes, equalAttributes) {
		return false
	}
	a.Name, b.Name, a.Attributes, b.Attributes = "", "", nil, nil
	if reflect.ValueOf(&a).Elem().IsZero() && reflect.ValueOf(&b).Elem().IsZero() {
		return true // an HCA for one claim, without a taint
	}
	return equality.Semantic.DeepEqual(a, b)
}

// equalAttributes compares all fields, which a test proves.
func equalAttributes(a, b resourceapi.DeviceAttribute) bool {
	return equalValues(a.StringValue, b.StringValue) && equalValues(a.IntValue, b.IntValue) &&
		equalValues(a.BoolValue, b.BoolValue) && equalValues(a.VersionValue, b.VersionValue) &&
		slices.Equal(a.StringValues, b.StringValues) && slices.Equal(a.IntValues, b.IntValues) &&
		slices.Equal(a.BoolValues, b.BoolValues) && slices.Equal(a.VersionValues, b.VersionValues)
}

func equalValues[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
