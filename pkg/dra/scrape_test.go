package dra_test

import (
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
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n, measured)
	drivertest.WaitPublished(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	n.AddPod("trainer-0", c)
	r := prometheus.NewRegistry()
	r.MustRegister(metrics.NewCollector(d.Measure))
	done := make(chan struct{})
	var scrapes sync.WaitGroup
	for range 2 {
		scrapes.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					scrape(t, r)
				}
			}
		})
	}
	for range 5 {
		prepare(t, n, c)
		got := scrape(t, r)
		test.Eq(t, []string{"team-a claim-1 trainer-0"}, got.allocations, test.Sprint("allocations"))
		test.Eq(t, [2]float64{1, 1}, [2]float64{got.claims, got.allocated}, test.Sprint("of a prepared claim"))
		n.Restart() // publishes again
		unprepare(t, n, c)
	}
	close(done)
	scrapes.Wait()
	got := scrape(t, r)
	test.SliceEmpty(t, got.allocations, test.Sprint("after the claim"))
	test.Eq(t, [4]float64{0, 0, 1, 1}, [4]float64{got.claims, got.allocated, got.registered, got.podsKnown})
	test.Eq(t, [3]float64{9, 9, 9}, [3]float64{got.devices, got.healthy, got.published}, test.Sprint("HCAs"))
}

// scraped is what a scrape says.
type scraped struct {
	claims, allocated, registered, podsKnown, devices, healthy, published float64
	allocations                                                           []string // namespace, claim, pod
}

func scrape(t *testing.T, r *prometheus.Registry) (s scraped) {
	t.Helper()
	families, err := r.Gather()
	test.NoError(t, err)
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			sums[f.GetName()] += m.GetGauge().GetValue()
			if f.GetName() == metrics.DeviceAllocation.Name {
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				s.allocations = append(s.allocations, labels["namespace"]+" "+labels["claim"]+" "+labels["pod"])
			}
		}
	}
	s.claims, s.allocated = sums[metrics.PreparedClaims.Name], sums[metrics.AllocatedDevices.Name]
	s.registered, s.podsKnown = sums[metrics.Registered.Name], sums[metrics.PodsKnown.Name]
	s.devices, s.healthy, s.published = sums[metrics.DeviceInfo.Name], sums[metrics.DeviceHealthy.Name],
		sums[metrics.PublishedDevices.Name]
	return s
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
