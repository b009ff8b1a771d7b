package dra_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// BenchmarkPrepare measures NodePrepareResources as the kubelet sees it, against
// floors of the same run on the same machine: "floor" is a call with no claim,
// what gRPC itself costs, and "get" adds what every driver must do, one GET of the
// claim. "first" prepares a claim, "again" one that is prepared.
func BenchmarkPrepare(b *testing.B) {
	for _, live := range []int{0, 1000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			n := drivertest.NewNode(b, "hgx-h100")
			start(b, n)
			for i := range live {
				c := drivertest.Monitor(1_000_000+i, dev1)
				n.AddClaim(c)
				call(b, n, c)
			}
			c, replaced := drivertest.Claim(1, dev0), drivertest.Claim(2, dev0)
			n.AddClaim(c, replaced)
			replaced.UID = "another" // the helper library gets it and goes no further
			nothing := func() {}
			b.Run("floor", func(b *testing.B) { measure(b, n, nothing, func() { call(b, n) }) })
			b.Run("get", func(b *testing.B) {
				measure(b, n, nothing, func() { _, _ = n.Prepare(drivertest.Context(b), replaced) })
			})
			b.Run("first", func(b *testing.B) { measure(b, n, func() { unprepare(b, n, c) }, func() { call(b, n, c) }) })
			b.Run("again", func(b *testing.B) { measure(b, n, nothing, func() { call(b, n, c) }) })
		})
	}
}

func call(b *testing.B, n *drivertest.Node, claims ...*resourceapi.ResourceClaim) {
	b.Helper()
	response, err := n.Prepare(drivertest.Context(b), claims...)
	must.NoError(b, err)
	for _, c := range claims {
		_, err := drivertest.Devices(response, c)
		must.NoError(b, err)
	}
}

// measure times f, after before, and reports medians and what the API server was asked.
func measure(b *testing.B, n *drivertest.Node, before, f func()) {
	var times []time.Duration
	gets, writes := n.Count(drivertest.GetClaim), n.Writes()
	for b.Loop() {
		before()
		began := time.Now()
		f()
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(n.Count(drivertest.GetClaim)-gets)/float64(len(times)), "GETs/op")
	b.ReportMetric(float64(n.Writes()-writes)/float64(len(times)), "API-writes/op")
}
