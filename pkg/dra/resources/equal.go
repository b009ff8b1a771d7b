package resources

import (
	"maps"
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// Equal reports whether two publications are the same. Slices of one [Builder] that are
// the same cost nothing. Otherwise most of what there is to compare is the attributes,
// which a comparison by reflection takes ten times as long for.
func Equal(a, b []resourceslice.Slice) bool { return slices.EqualFunc(a, b, equalSlices) }

func equalSlices(a, b resourceslice.Slice) bool {
	if !sameArray(a.Devices, b.Devices) && !slices.EqualFunc(a.Devices, b.Devices, equalDevices) {
		return false
	}
	a.Devices, b.Devices = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

func sameArray[T any](a, b []T) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

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

// equal reports whether two makers make the same of the same offers.
func (m maker) equal(o maker) bool {
	return m.mode == o.mode && m.consumable == o.consumable && m.untainted == o.untainted && m.locks.equal(o.locks)
}

func (l *locks) equal(o *locks) bool {
	return l != nil && maps.Equal(l.set, o.set) && maps.EqualFunc(l.heads, o.heads, slices.Equal)
}

// equal compares all fields, which a test proves.
func (p part) equal(o part) bool { return p.shared == o.shared && p.Offer.equal(&o.Offer) }

func (o *Offer) equal(p *Offer) bool {
	return o.HCA.Equal(p.HCA) && o.View == p.View && o.Capacity.equal(&p.Capacity) && maps.EqualFunc(o.Attributes, p.Attributes, equalAttributes) &&
		o.Draining == p.Draining && o.Unlocked == p.Unlocked && equality.Semantic.DeepEqual(o.Taints, p.Taints)
}

func (c *Capacity) equal(o *Capacity) bool {
	return c.Shares == o.Shares && c.DefaultShares == o.DefaultShares && c.Handles == o.Handles && c.Objects == o.Objects &&
		(c.Bandwidth == o.Bandwidth || c.Bandwidth != nil && o.Bandwidth != nil && c.Bandwidth.Cmp(*o.Bandwidth) == 0)
}
