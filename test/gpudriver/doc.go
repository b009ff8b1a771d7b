// Command gpudriver is a DRA driver for GPUs, as small as one can be: the tests and
// demonstrations of alignment need GPUs beside HCAs (docs/alignment.md). It is not
// for use, and no part of the chart.
//
// It finds the GPUs of a host, a real or a bundled one, with pkg/topology, and
// publishes them under the driver name gpu.example.com. A container that is given a
// GPU gets a variable that names it, and nothing else: there is no GPU.
//
// # What lets a claim align
//
// A claim aligns devices of two drivers by a matchAttribute constraint, which
// compares the attribute of the same fully qualified name. So a GPU has the standard
// attributes resource.kubernetes.io/pcieRoot, pciBusID and numaNode, as the GPU
// drivers of vendors have, and one more: rdma.dev/pcieSwitch, with the meaning and
// the values of our driver's attribute pcieSwitch, whose full name that is. There is
// no standard attribute for a switch.
package main
