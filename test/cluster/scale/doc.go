// Package scale measures many nodes on one machine, with the real API server and etcd: what hundreds of drivers ask of
// them (BenchmarkDrivers). The nodes are fixture hosts. The results are in docs/dev/drivers.md.
package scale
