// Package latency holds tests of how soon an API server knows what the kernel knows,
// on hosts of several sizes, and of what a storm of events costs it: the driver in the
// test's process, on a fixture host, with events that the test plays, and a real API
// server alone. It runs beside a cluster.
//
// Times are compared with those of requests to the same server in the same run. What
// is asserted of them is generous; what is exact is counted.
package latency
