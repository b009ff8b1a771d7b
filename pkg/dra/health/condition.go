package health

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Condition is a possible fault of an HCA. Its name is that of the taint, without the
// domain.
type Condition string

// The conditions, in order of importance; docs/health.md explains each. This table has all that is true of a
// condition, except how it is seen. Metrics, the policy, the chart's schema and events have its names from here.
var (
	// DeviceGone: a claim holds the HCA, and it is gone.
	DeviceGone = add("device-gone", Unhealthy, noSchedule, "RDMADeviceGone", "RDMADeviceBack", absent)
	// DriverUnbound: the same, but its PCI function is present.
	DriverUnbound = add("driver-unbound", Unhealthy, noSchedule, "RDMADriverUnbound", "RDMADriverBound", absent)
	// NoUverbs: a claim holds the HCA, and it has no verbs node.
	NoUverbs = add("no-uverbs", Unhealthy, noSchedule, "RDMAUverbsMissing", "RDMAUverbsPresent", ofHCA)
	// NoGUID: the node GUID is zero.
	NoGUID = add("no-guid", Unhealthy, noSchedule, "RDMANodeGUIDMissing", "RDMANodeGUIDSet", ofHCA)
	// PortDown: no port is ACTIVE.
	PortDown = add("port-down", Unhealthy, noSchedule, "RDMAPortDown", "RDMAPortActive", ofAllPorts)
	// Unmonitored: no port's state can be read.
	Unmonitored = add("unmonitored", Unknown, none, "RDMAPortUnreadable", "RDMAPortReadable", 0)
	// PortDegraded: one port of several is not ACTIVE.
	PortDegraded = add("port-degraded", Healthy, none, "RDMAPortsDegraded", "RDMAPortsActive", 0)
	// Firmware: the kernel's driver says that the firmware is in error.
	Firmware = add("firmware", Healthy, none, "RDMAFirmwareFailed", "RDMAFirmwareRecovered", sick|ofHCA|patient)
	// PortFlapping: a port fell several times within a day.
	PortFlapping = add("port-flapping", Healthy, none, "RDMAPortFlapping", "RDMAPortSteady", sick|counted)
	// PortSlow: the rate is lower than it should be.
	PortSlow = add("port-slow", Healthy, none, "RDMAPortSlow", "RDMAPortRateRestored", sick|ofHCA|patient)
	// PortErrors: an error counter rises too fast.
	PortErrors = add("port-errors", Healthy, none, "RDMAPortErrors", "RDMAPortErrorsEnded", sick|counted)
	// PCIeDegraded: a PCIe link up to the root is narrower than it should be.
	PCIeDegraded = add("pcie-degraded", Healthy, none, "RDMAPCIeDegraded", "RDMAPCIeRestored", sick|ofHCA|patient)
	// PCIeErrors: the PCIe link of the HCA makes errors.
	PCIeErrors = add("pcie-errors", Healthy, none, "RDMAPCIeErrors", "RDMAPCIeErrorsEnded", sick|counted|ofHCA)
	// Miswired: the port is connected to another switch than the wiring plan says.
	Miswired = add("miswired", Healthy, none, "RDMAMiswired", "RDMAWiringAsPlanned", sick|patient)
	// NoAddress: a RoCE port has only link-local GIDs.
	NoAddress = add("no-address", Healthy, none, "RDMAAddressMissing", "RDMAAddressPresent", ofAllPorts|ordinary)
)

// Key is the key of the condition's taint.
func (c Condition) Key() string { return rdma.Domain + "/" + string(c) }

// Sick reports whether an HCA with the condition is worse than it should be, see [Verdict.Sick].
func (c Condition) Sick() bool {
	of := consequenceOf(c)
	return of != nil && !c.is(absent) && (of.status != Healthy || c.is(sick))
}

// Absent reports whether the condition is that of an HCA that is not there.
func (c Condition) Absent() bool { return c.is(absent) }

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
	traits    trait
}

const (
	none       = resourceapi.DeviceTaintEffectNone
	noSchedule = resourceapi.DeviceTaintEffectNoSchedule
)

// trait is what else is true of some conditions.
type trait uint8

const (
	// absent: the HCA is not there, and its other conditions are unknown.
	absent trait = 1 << iota
	// sick: the link is up, and the effect holds for one physical card of a node at a time.
	sick
	// counted: it never evicts, because a counter alone proves little.
	counted
	// patient: it must be seen for Config.Sick, and stays what it was while nothing is known. It depends on the policy and
	// the other cards, on an answer of the firmware, or on one of the switch.
	patient
	// ofHCA: it is a condition of the HCA. Others are of a port.
	ofHCA
	// ofAllPorts: the HCA has it if all ports have it. Otherwise one port is enough.
	ofAllPorts
	// ordinary: its event is no warning.
	ordinary
)

// consequences has all conditions, in order of importance.
var consequences []consequence

// add makes a condition known.
func add(c Condition, s Status, effect resourceapi.DeviceTaintEffect, began, ended string, traits trait) Condition {
	consequences = append(consequences,
		consequence{condition: c, status: s, effect: effect, began: began, ended: ended, traits: traits})
	return c
}

// is reports whether a condition has a trait.
func (c Condition) is(t trait) bool {
	of := consequenceOf(c)
	return of != nil && of.traits&t != 0
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
