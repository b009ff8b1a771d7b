package report

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/patch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestOwner: who has an HCA alone is named, and who shares it is not.
func TestOwner(t *testing.T) {
	const hca = "pci-0000-19-00-0"
	pods := podresources.Claims{
		{Namespace: "team-a", Name: "hca"}:   {{Name: "trainer-0"}},
		{Namespace: "team-a", Name: "two"}:   {{Name: "a"}, {Name: "b"}},
		{Namespace: "team-a", Name: "picky"}: {{Name: "a", Devices: []string{hca}}, {Name: "b", Devices: []string{"pci-0000-29-00-0"}}},
		{Namespace: "team-b", Name: "hca"}:   {{Name: "stranger"}},
	}
	golden.Cases(t, "owner", func(t *testing.T, plans []*plan.Plan) string {
		for _, p := range plans {
			p.Namespace = "team-a"
		}
		view := node.View{Host: &node.Host{Snapshot: &rdma.Snapshot{}}, Plans: plans}
		o := ownersOf(&nodestatus.Status{Claims: statusClaims(view, pods)})
		l := o.labels(hca)
		return fmt.Sprintf("{Namespace:%s Claim:%s Pod:%s}, allocations: %d", l[0], l[1], l[2], len(o[hca]))
	})
}

// judged is the status of a fixture machine whose HCAs are healthy.
func judged(t testing.TB, machine string) *nodestatus.Status {
	t.Helper()
	s := &nodestatus.Status{}
	snap := rdmatest.Snapshot(t, machine)
	for i := range snap.HCAs {
		h := statusHCA(&snap.HCAs[i], nil)
		h.Health = "Healthy"
		s.HCAs = append(s.HCAs, h)
	}
	return s
}

// sent returns the samples that send sends, by metric.
func sent(t testing.TB, send func(metrics.Samples)) map[string][]float64 {
	t.Helper()
	r, out := prometheus.NewRegistry(), map[string][]float64{}
	r.MustRegister(prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) { send(ch) }))
	families, err := r.Gather()
	must.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[f.GetName()] = append(out[f.GetName()], m.GetGauge().GetValue()+m.GetCounter().GetValue())
		}
	}
	return out
}

// TestOrder: where not all counters can be read, those of claims come first and those of
// idle functions last, and what is left out is counted.
func TestOrder(t *testing.T) {
	s := judged(t, "roce-sriov")
	vf := s.HCAs[4].Name
	held := owners{vf: {{device: vf}}}
	var got []string
	for _, h := range (scrape{Status: s}).inOrder(held)[:4] {
		got = append(got, h.Function)
	}
	if diff := cmp.Diff([]string{"vf", "pf", "pf", "vf"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	omitted := func() []float64 {
		return sent(t, func(to metrics.Samples) {
			scrape{to, s}.hcas(ctx, fstest.MapFS{}, held)
		})[metrics.CountersOmitted.Name]
	}
	test.Eq(t, []float64{0}, omitted(), test.Sprint("HCAs are left out without a reason"))
	cancel()
	test.Eq(t, []float64{float64(len(s.HCAs))}, omitted())
}

// TestBound: on the largest host a scrape has no more series than documented, in whole
// HCAs.
func TestBound(t *testing.T) {
	m, err := fixture.Load("aws-p5")
	must.NoError(t, err)
	s, sys := judged(t, "aws-p5"), m.FS(t)
	s.HCAs = slices.Repeat(s.HCAs, 20) // of 32 EFAs
	for i := range s.HCAs {
		s.HCAs[i].Name = fmt.Sprint(i)
	}
	all := sent(t, func(to metrics.Samples) { scrape{to, s}.hcas(t.Context(), sys, nil) })
	series := 0
	for _, m := range []metrics.Metric{
		metrics.PortReceivedBytes, metrics.PortTransmittedBytes, metrics.PortReceivedPackets, metrics.PortTransmittedPackets,
		metrics.PortCounter, metrics.PortHWCounter, metrics.PortHWLevel, metrics.DeviceHWCounter, metrics.DeviceHWLevel,
	} {
		series += len(all[m.Name])
	}
	const most = maxCounters + 100
	omitted := all[metrics.CountersOmitted.Name][0]
	test.True(t, series <= most && series >= maxCounters-100 && omitted != 0,
		test.Sprintf("%d series, %v of %d HCAs left out", series, omitted, len(s.HCAs)))
}

// usage is the usage of HCAs by one container.
func usage(current, limit string) fstest.MapFS {
	dir := "kubepods/pod0f1e2d3c-0000-4000-8000-00000000000a/" + strings.Repeat("1", 64) + "/"
	return fstest.MapFS{
		"cgroup.controllers": {Data: []byte("rdma")},
		dir + "rdma.current": {Data: []byte(current)}, dir + "rdma.max": {Data: []byte(limit)},
	}
}

// TestContainers: what a container holds belongs to the claim of the HCA; containers
// with an HCA that no claim has are not there.
func TestContainers(t *testing.T) {
	s := &nodestatus.Status{HCAs: []nodestatus.HCA{{Name: "a", IBDev: "mlx5_0"}, {Name: "b", IBDev: "mlx5_1"}}}
	cgroups := usage("mlx5_0 hca_handle=1 hca_object=2\nmlx5_1 hca_handle=1 hca_object=3\n"+
		"mlx5_9 hca_handle=1 hca_object=4\n", "")
	got := sent(t, func(to metrics.Samples) {
		scrape{to, s}.containers(cgroups, owners{"a": {{namespace: "team-a", claim: "hca"}}})
	})
	test.Eq(t, []float64{2}, got[metrics.ContainerObjects.Name])
}

// oneOfEach collects one of everything.
func oneOfEach(t *testing.T) prometheus.Collector {
	return metrics.NewCollector(func(ctx context.Context, to metrics.Samples) { sendOneOfEach(t, ctx, to) })
}

func sendOneOfEach(t *testing.T, ctx context.Context, to metrics.Samples) {
	t.Helper()
	s := scrape{to, &nodestatus.Status{}}
	patch.File(t, "testdata/scrape.yaml", s.Status)
	s.HCAs[2].Name = "soft-\xff" // no UTF-8: only its own series are lost
	held := ownersOf(s.Status)
	var troubles apiclient.Troubles
	for range 3 {
		troubles.Note(ctx, "get resourceclaims", apiclient.NoAnswer, "")
	}
	sys := fstest.MapFS{}
	for name, text := range map[string]string{
		"ports/1/counters/port_rcv_data": "25", "ports/1/counters/port_xmit_packets": "7", "ports/1/counters/bad": "x",
		"ports/1/hw_counters/out_of_buffer": "3", "ports/1/hw_counters/active_qps": "12",
		"hw_counters/cmds_err": "0", "hw_counters/active_pds": "2", "hw_counters/bad": "x", "hw_counters/worse": "x",
	} {
		sys["class/infiniband/mlx5_0/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	s.node()
	s.requests(&troubles)
	s.allocations(held)
	s.hcas(ctx, sys, held)
	s.containers(usage("mlx5_0 hca_handle=1 hca_object=3", "mlx5_0 hca_handle=4 hca_object=4"), held)
}

// gathered gathers a registry in the text format.
func gathered(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	must.NoError(t, err)
	var out bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&out, f)
		must.NoError(t, err)
	}
	return out.String()
}

// TestCollector compares a scrape with a golden file.
func TestCollector(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(oneOfEach(t))
	golden.Bytes(t, "scrape.golden", []byte(gathered(t, r)))
}

// all is a registry with all metrics of the driver.
func all(t *testing.T) *prometheus.Registry {
	t.Helper()
	r := metrics.New().Registry()
	r.MustRegister(oneOfEach(t))
	return r
}

// TestLint: names and units are as Prometheus wants them.
func TestLint(t *testing.T) {
	r := all(t)
	problems, err := promlint.New(strings.NewReader(gathered(t, r))).Lint()
	must.NoError(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestCatalog: each metric that is gathered is in the catalog, with its type.
func TestCatalog(t *testing.T) {
	r := all(t)
	catalog := map[string]metrics.Metric{}
	for _, m := range metrics.Catalog {
		_, twice := catalog[m.Name]
		test.True(t, !twice && m.Help != "" && m.Bound != "",
			test.Sprintf("%s is there twice, or says nothing of itself", m.Name))
		catalog[m.Name] = m
	}
	families, err := r.Gather()
	must.NoError(t, err)
	for _, f := range families {
		m, ok := catalog[f.GetName()]
		test.True(t, ok || !strings.HasPrefix(f.GetName(), "rdma_"),
			test.Sprintf("%s is not in the catalog", f.GetName()))
		test.True(t, !ok || strings.EqualFold(string(m.Kind), f.GetType().String()),
			test.Sprintf("%s is a %s", f.GetName(), f.GetType()))
	}
}
