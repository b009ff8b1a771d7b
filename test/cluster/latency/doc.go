// Package latency measures how soon an API server knows what the kernel knows, on hosts of several sizes: the driver in
// the test's process, on a fixture host, with events that the test plays, and a real API server alone. Times are
// compared with those of requests to the same server in the same run. TestStorm of pkg/dra/offer and TestLoadOfOneLink
// of pkg/dra count the writes.
package latency
