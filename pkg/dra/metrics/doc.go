// Package metrics holds the driver's Prometheus metrics.
//
// There are two sources. The driver updates the [Instruments] when something happens: how
// long a phase took, why a claim failed, that the health of a device changed. A [Collector]
// measures the present state at each scrape: package report writes the node's status to [Samples].
//
// Without Instruments (nil) the driver measures nothing. The catalog declares every metric once,
// with the bound on its series per node. The table in docs/reference/metrics.md is made from it.
//
// # Labels
//
// A series of a device has the name of the HCA's slot (device), which is also its name in the
// ResourceSlices, and the kernel's name (ibdev), which can change with a reboot. If exactly one
// claim holds the HCA, the labels claim and namespace name it. If exactly one pod of that claim
// uses the HCA, the label pod names it. The counters of a shared HCA have no such labels, but
// [DeviceAllocation] lists all of its claims and pods.
package metrics
