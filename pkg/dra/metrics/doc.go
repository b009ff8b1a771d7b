// Package metrics is what the driver tells Prometheus.
//
// There are two kinds. [Instruments] are told by the driver when something happens: how
// long a phase took, why a claim failed, that the health of a device changed. A
// [Collector] asks at each scrape what there is: devices with their counters, claims, and
// the pods that have them. Of what is gone nothing is left, since nothing is kept
// between two scrapes.
//
// The driver is given Instruments and fills a [State]; that is all it knows of Prometheus,
// and without Instruments (nil) it measures nothing. Every metric is declared once, in
// the catalog, with what bounds the number of its series on a node; docs/metrics.md has a
// table that is made from it.
//
// # Labels
//
// A series of a device has the name of the HCA's slot (device), which is its name in the
// ResourceSlices as well, and the kernel's name (ibdev), which can change with a reboot.
// Where exactly one claim holds the HCA, claim and namespace name it, and where exactly one
// pod of it uses the HCA, so does pod. What many have is nobody's: the counters of
// a shared HCA have no such labels, and [DeviceAllocation] lists all who have it.
package metrics
