package model

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// DeviceState says whether a claim could get a device now.
type DeviceState string

// The states.
const (
	DeviceFree      DeviceState = "Free"
	DeviceAllocated DeviceState = "Allocated" // one claim holds it
	DeviceShared    DeviceState = "Shared"    // claims hold shares of it, and some are free
	DeviceFull      DeviceState = "Full"      // claims hold all of its shares
	DeviceExcluded  DeviceState = "Excluded"  // a device that shares counters with it is allocated
	DeviceUnknown   DeviceState = "Unknown"   // its pool has an error, or claims could not be read
)

// DeviceStates are all states. The first ones leave something to a new claim.
var DeviceStates = []DeviceState{
	DeviceFree, DeviceShared, DeviceFull, DeviceAllocated, DeviceExcluded, DeviceUnknown,
}

// State calls the allocator where the claims of the device do not determine the state.
func (v *View) State(ctx context.Context, d *Device) (DeviceState, error) {
	if slices.ContainsFunc(v.Holdings[d.ID], holder.exclusive) {
		return DeviceAllocated, nil
	}
	if v.Cluster.Unread.Has(Claims) {
		return DeviceUnknown, nil
	}
	ruling, err := v.ruleByAmount(ctx, nil, d)
	switch {
	case v.pool[idOf(d.Slice)].invalid:
		return DeviceUnknown, nil
	case TimeIsOver(err):
		return "", err
	case err != nil:
		return DeviceUnknown, nil
	case ruling.Reason == RuledCounters:
		return DeviceExcluded, nil
	case ruling.Reason != "":
		return DeviceFull, nil
	case slices.ContainsFunc(v.Holdings[d.ID], holder.takes):
		return DeviceShared, nil
	}
	return DeviceFree, nil
}

// Value returns the value of an attribute, for JSON.
func Value(a resourceapi.DeviceAttribute) any {
	switch {
	case a.IntValue != nil:
		return *a.IntValue
	case a.BoolValue != nil:
		return *a.BoolValue
	case a.StringValue != nil:
		return *a.StringValue
	case a.VersionValue != nil:
		return *a.VersionValue
	case a.IntValues != nil:
		return a.IntValues
	case a.BoolValues != nil:
		return a.BoolValues
	case a.StringValues != nil:
		return a.StringValues
	}
	return a.VersionValues
}

// Text returns an attribute as text, "" if it is absent.
func (d *Device) Text(name resourceapi.QualifiedName) string {
	if a, ok := d.Attributes[name]; ok {
		return fmt.Sprint(Value(a))
	}
	return ""
}
