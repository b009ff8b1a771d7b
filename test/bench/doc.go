// Package bench measures what the driver costs, against floors that are measured in the
// same run: a driver that does nothing on the same helper library (empty), or the same
// work without us. `make bench` runs it, and writes results.md.
//
// Driver and floor do the same in turn, so that whatever else the machine does hits both.
// What counts is their ratio; the times are those of one machine on one day. Both
// are programs, as on a node, on a node of package drivertest: a kubelet and an API
// server that speak the real protocols, and a host with real device nodes. The
// kubelet's directory is on a disk and that of the CDI specs in memory, as on a node.
// That API server has no etcd and no TLS, and waits as long as the benchmark says. A real
// one is beside BenchmarkAPIServer and BenchmarkSchedule, and beside BenchmarkLatency of
// test/cluster/latency; cmd/bench runs all of them.
//
// A benchmark measures once and then reports each side as a sub-benchmark, so that
// benchstat compares them:
//
//	go test -run '^$' -bench Prepare -count 5 . | tee out
//	benchstat -col /driver out
//
// Times say little on a busy machine, and counts are the same on all: how many requests
// the API server gets, and what is asked of the file system. TestCounts compares them
// with testdata/counts.txt.
package bench
