package dra_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
)

func measured(cfg *dra.Config) { cfg.Metrics = metrics.New() }

// TestScrapeAtWork: scrapes do not disturb a driver at work, and what they tell of it is
// in step with it.
func TestScrapeAtWork(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n, measured)
	drivertest.WaitPublished(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	n.AddPod("trainer-0", c)
	done := make(chan struct{})
	var scrapes sync.WaitGroup
	for range 2 {
		scrapes.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					d.Measure(t.Context())
				}
			}
		})
	}
	for range 5 {
		prepare(t, n, c)
		if got := d.Measure(t.Context()); got.PreparedClaims != 1 || got.Allocated["exclusive"] != 1 || len(got.Allocations) != 1 ||
			got.Allocations[0].Owner != (metrics.Owner{Namespace: "team-a", Claim: "claim-1", Pod: "trainer-0"}) {
			t.Errorf("of a prepared claim: %d claims, %v allocated, allocations %v", got.PreparedClaims, got.Allocated, got.Allocations)
		}
		n.Restart() // publishes again
		unprepare(t, n, c)
	}
	close(done)
	scrapes.Wait()
	got := d.Measure(t.Context())
	test.True(t, got.PreparedClaims == 0 && got.Allocated["exclusive"] == 0 && len(got.Allocations) == 0 &&
		got.Registered && got.PodsKnown, test.Sprintf("after the claim: %+v", got))
	if len(got.Devices) != 9 || got.Published["exclusive"] != 9 || slices.ContainsFunc(got.Devices, func(m metrics.Device) bool { return m.Healthy == nil || !*m.Healthy }) {
		t.Errorf("%d devices, published %v", len(got.Devices), got.Published)
	}
}

// BenchmarkScrape measures a scrape of hosts with 9 and with 32 HCAs, and counts its
// series.
func BenchmarkScrape(b *testing.B) {
	for _, machine := range []string{"hgx-h100", "aws-p5"} {
		b.Run(machine, func(b *testing.B) {
			n := drivertest.NewNode(b, machine)
			d := start(b, n)
			r := prometheus.NewRegistry()
			r.MustRegister(metrics.NewCollector(d.Measure))
			series := 0
			for b.Loop() {
				families, err := r.Gather()
				must.NoError(b, err)
				series = 0
				for _, f := range families {
					series += len(f.GetMetric())
				}
			}
			b.ReportMetric(float64(series), "series")
		})
	}
}
