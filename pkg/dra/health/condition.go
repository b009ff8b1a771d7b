package health

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// Condition is something that can be wrong with an HCA. Its name is that of the
// taint, without the domain.
type Condition string

// The conditions; docs/health.md explains each.
const (
	DeviceGone    Condition = "device-gone"    // a claim holds it, and it is not there
	DriverUnbound Condition = "driver-unbound" // as before, and the PCI function is there
	NoUverbs      Condition = "no-uverbs"      // a claim holds it, and it has no verbs node
	NoGUID        Condition = "no-guid"        // the node GUID is zero
	PortDown      Condition = "port-down"      // no port is ACTIVE
	Unmonitored   Condition = "unmonitored"    // the state of no port can be read
	PortDegraded  Condition = "port-degraded"  // one port of several is not ACTIVE
	PortErrors    Condition = "port-errors"    // an error counter rises too fast
	NoAddress     Condition = "no-address"     // a RoCE port has link-local GIDs only
)

// Domain is the domain of the keys of taints.
const Domain = "rdma.dev"

// Key is the key of the condition's taint.
func (c Condition) Key() string { return Domain + "/" + string(c) }

// Status is what the kubelet is told of a device, in the words of its API.
type Status string

// The states.
const (
	Healthy   Status = "Healthy"
	Unhealthy Status = "Unhealthy"
	Unknown   Status = "Unknown"
)

// nature is what follows from a condition.
type nature struct {
	condition Condition
	status    Status                        // of a device that has the condition
	effect    resourceapi.DeviceTaintEffect // by default
	came      string                        // reason of the event when it begins
	went      string                        // and when it ends
}

// natures has all conditions, the one that says most first.
var natures = []nature{
	{DeviceGone, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMADeviceGone", "RDMADeviceBack"},
	{DriverUnbound, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMADriverUnbound", "RDMADriverBound"},
	{NoUverbs, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMAUverbsMissing", "RDMAUverbsPresent"},
	{NoGUID, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMANodeGUIDMissing", "RDMANodeGUIDSet"},
	{PortDown, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMAPortDown", "RDMAPortActive"},
	{Unmonitored, Unknown, resourceapi.DeviceTaintEffectNone, "RDMAPortUnreadable", "RDMAPortReadable"},
	{PortDegraded, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAPortsDegraded", "RDMAPortsActive"},
	{PortErrors, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAPortErrors", "RDMAPortErrorsEnded"},
	{NoAddress, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAAddressMissing", "RDMAAddressPresent"},
}

// Conditions returns all conditions, the one that says most first.
func Conditions() []Condition {
	var out []Condition
	for _, n := range natures {
		out = append(out, n.condition)
	}
	return out
}

// natureOf returns what follows from a condition, nil if there is no such.
func natureOf(c Condition) *nature {
	i := slices.IndexFunc(natures, func(n nature) bool { return n.condition == c })
	if i < 0 {
		return nil
	}
	return &natures[i]
}
