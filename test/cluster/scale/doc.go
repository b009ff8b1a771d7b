// Package scale measures many nodes on one machine, with the real API server, etcd and scheduler: what hundreds of
// drivers ask of them (BenchmarkDrivers), and which nodes jobs get with and without a label of their leaf
// (BenchmarkPlacement). The nodes are fixture hosts. The results are in drivers.md and placement.md here.
package scale
