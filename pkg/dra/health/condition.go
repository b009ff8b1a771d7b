package health

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Condition is a possible fault of an HCA. Its name is that of the taint, without the
// domain.
type Condition string

// The conditions; docs/health.md explains each.
const (
	DeviceGone    Condition = "device-gone"    // a claim holds the HCA, and it is gone
	DriverUnbound Condition = "driver-unbound" // the same, but its PCI function is present
	NoUverbs      Condition = "no-uverbs"      // a claim holds the HCA, and it has no verbs node
	NoGUID        Condition = "no-guid"        // the node GUID is zero
	PortDown      Condition = "port-down"      // no port is ACTIVE
	Unmonitored   Condition = "unmonitored"    // no port's state can be read
	PortDegraded  Condition = "port-degraded"  // one port of several is not ACTIVE
	Firmware      Condition = "firmware"       // the kernel's driver says that the firmware is in error
	PortFlapping  Condition = "port-flapping"  // a port fell several times within a day
	PortSlow      Condition = "port-slow"      // the rate is lower than it should be
	PortErrors    Condition = "port-errors"    // an error counter rises too fast
	PCIeDegraded  Condition = "pcie-degraded"  // a PCIe link up to the root is narrower than it should be
	PCIeErrors    Condition = "pcie-errors"    // the PCIe link of the HCA makes errors
	Miswired      Condition = "miswired"       // the port is connected to another switch than the wiring plan says
	NoAddress     Condition = "no-address"     // a RoCE port has only link-local GIDs
)

// Key is the key of the condition's taint.
func (c Condition) Key() string { return rdma.Domain + "/" + string(c) }

// Sick reports whether an HCA with the condition is worse than it should be, see [Verdict.Sick].
func (c Condition) Sick() bool {
	of := consequenceOf(c)
	return of != nil && c != DeviceGone && c != DriverUnbound && (of.status != Healthy || of.sick != notSick)
}

// Reason is the reason of the event when the condition begins, such as RDMAPortSlow.
func (c Condition) Reason() string { return consequenceOf(c).began }

// Status is the health of a device in the kubelet's API.
type Status string

// The states.
const (
	Healthy   Status = "Healthy"
	Unhealthy Status = "Unhealthy"
	Unknown   Status = "Unknown"
)

// consequence is the effect of a condition on taints, the kubelet and events.
type consequence struct {
	condition Condition
	status    Status                        // of a device with the condition
	effect    resourceapi.DeviceTaintEffect // by default
	began     string                        // reason of the event when it begins
	ended     string                        // reason of the event when it ends
	sick      sickness                      // for a link that is up
}

// sickness says what an administrator's effect can do for a condition of a link that is up.
type sickness int8

const (
	notSick sickness = iota
	sick             // the effect holds for one physical card of a node at a time
	counted          // the same, and it never evicts, because a counter alone proves little
)

// consequences has all conditions, in order of importance.
var consequences = []consequence{
	{DeviceGone, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMADeviceGone", "RDMADeviceBack", notSick},
	{DriverUnbound, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMADriverUnbound", "RDMADriverBound", notSick},
	{NoUverbs, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMAUverbsMissing", "RDMAUverbsPresent", notSick},
	{NoGUID, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMANodeGUIDMissing", "RDMANodeGUIDSet", notSick},
	{PortDown, Unhealthy, resourceapi.DeviceTaintEffectNoSchedule, "RDMAPortDown", "RDMAPortActive", notSick},
	{Unmonitored, Unknown, resourceapi.DeviceTaintEffectNone, "RDMAPortUnreadable", "RDMAPortReadable", notSick},
	{PortDegraded, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAPortsDegraded", "RDMAPortsActive", notSick},
	{Firmware, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAFirmwareFailed", "RDMAFirmwareRecovered", sick},
	{PortFlapping, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAPortFlapping", "RDMAPortSteady", counted},
	{PortSlow, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAPortSlow", "RDMAPortRateRestored", sick},
	{PortErrors, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAPortErrors", "RDMAPortErrorsEnded", counted},
	{PCIeDegraded, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAPCIeDegraded", "RDMAPCIeRestored", sick},
	{PCIeErrors, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAPCIeErrors", "RDMAPCIeErrorsEnded", counted},
	{Miswired, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAMiswired", "RDMAWiringAsPlanned", sick},
	{NoAddress, Healthy, resourceapi.DeviceTaintEffectNone, "RDMAAddressMissing", "RDMAAddressPresent", notSick},
}

// Conditions returns all conditions, in order of importance.
func Conditions() []Condition {
	var out []Condition
	for _, c := range consequences {
		out = append(out, c.condition)
	}
	return out
}

// consequenceOf returns the consequence of a condition, nil for an unknown condition.
func consequenceOf(c Condition) *consequence {
	i := slices.IndexFunc(consequences, func(other consequence) bool { return other.condition == c })
	if i < 0 {
		return nil
	}
	return &consequences[i]
}
