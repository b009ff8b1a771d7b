// Package metrics holds the driver's Prometheus metrics.
//
// There are two sources. The driver updates the [Instruments] when something happens: how
// long a phase took, why a claim failed, that the health of a device changed. A
// [Collector] reads the current state at each scrape: devices with their counters, claims, and
// the pods that use them. It keeps nothing between two scrapes, so nothing remains of removed
// devices.
//
// The driver calls Instruments and fills a [State]. It knows nothing else about Prometheus.
// Without Instruments (nil) it measures nothing. The catalog declares every metric once, with
// the bound on its series per node. The table in docs/reference/metrics.md is made from it.
//
// # Labels
//
// A series of a device has the name of the HCA's slot (device), which is also its name in the
// ResourceSlices, and the kernel's name (ibdev), which can change with a reboot. If exactly one
// claim holds the HCA, the labels claim and namespace name it. If exactly one pod of that claim
// uses the HCA, the label pod names it. The counters of a shared HCA have no such labels, but
// [DeviceAllocation] lists all of its claims and pods.
package metrics
