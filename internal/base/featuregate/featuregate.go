// Package featuregate has the feature gates of Kubernetes on which this project depends, and their defaults.
//
// Programs and docs/compatibility.md have no other table of them. A test of test/cluster compares it with the source of
// each Kubernetes release that the driver supports.
package featuregate

import (
	"fmt"
	"slices"
)

// Gate is a feature gate.
type Gate struct {
	Name string
	// For is what it gives users of this project.
	For string
	// Since, On and Locked are the minor versions of Kubernetes from which on it is there, on by default, and always on; 0
	// for none.
	Since, On, Locked int
}

// The gates that programs name.
const (
	ConsumableCapacity      = "DRAConsumableCapacity"
	PartitionableDevices    = "DRAPartitionableDevices"
	DeviceTaints            = "DRADeviceTaints"
	DeviceTaintRules        = "DRADeviceTaintRules"
	ExtendedResource        = "DRAExtendedResource"
	FractionalCapacityRange = "DRAFractionalCapacityRange"
)

// Gates is the table.
var Gates = []Gate{
	{Name: "DRAPrioritizedList", For: "lists of devices", Since: 33, On: 34, Locked: 37},
	{Name: ConsumableCapacity, For: "shares, groups", Since: 34, On: 36},
	{Name: PartitionableDevices, For: "partitioning", Since: 33, On: 36},
	{Name: DeviceTaints, For: "taints", Since: 33, On: 36},
	{Name: DeviceTaintRules, For: "drain", Since: 35, On: 37},
	{Name: ExtendedResource, For: "`rdma/hca` in limits", Since: 34, On: 36, Locked: 37},
	{Name: "ResourceHealthStatus", For: "health of pods", Since: 31, On: 36},
	{Name: "DRAResourceClaimDeviceStatus", For: "status of claims", Since: 32, On: 33, Locked: 37},
	{Name: "DRAAdminAccess", For: "monitoring", Since: 32, On: 34, Locked: 36},
	{Name: "DRAWorkloadResourceClaims", For: "claims of PodGroups", Since: 36},
	{Name: "DRAListTypeAttributes", For: "lists of NUMA nodes", Since: 36},
	{Name: "DRADerivedAttributes", For: "computed attributes", Since: 37},
	{Name: FractionalCapacityRange, For: "fractions of a capacity", Since: 37, On: 37},
}

// named returns a gate of the table.
func named(name string) Gate {
	return Gates[slices.IndexFunc(Gates, func(g Gate) bool { return g.Name == name })]
}

// State returns the state of a gate in a minor version by default: off, on, locked, or "-" where it is not there.
func State(name string, minor int) string {
	reached := func(since int) bool { return since > 0 && minor >= since }
	switch g := named(name); {
	case reached(g.Locked):
		return "locked"
	case reached(g.On):
		return "on"
	case reached(g.Since):
		return "off"
	}
	return "-"
}

// On reports whether a gate is on by default in a minor version.
func On(name string, minor int) bool {
	return State(name, minor) == "on" || State(name, minor) == "locked"
}

// Words names a gate for a sentence about an API server that may lack it. minor is the server's minor version, 0 if it
// is not known.
func Words(name string, minor int) string {
	words := "feature gate " + name
	switch {
	case minor == 0:
		return fmt.Sprintf("%s, off by default before Kubernetes 1.%d", words, named(name).On)
	case On(name, minor):
		return fmt.Sprintf("%s, on by default in Kubernetes 1.%d", words, minor)
	case State(name, minor) == "off":
		return fmt.Sprintf("%s, off by default in Kubernetes 1.%d", words, minor)
	}
	return fmt.Sprintf("%s, which Kubernetes 1.%d does not have", words, minor)
}
