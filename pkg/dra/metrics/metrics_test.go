package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/counters"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmacgroup"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/metrics"
)

// text gathers a registry in the text format.
func text(t *testing.T, g prometheus.Gatherer) string {
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

// state has one of everything.
func state(context.Context) metrics.State {
	alone := metrics.Owner{Namespace: "team-a", Claim: "hca", Pod: "trainer-0"}
	four, yes := uint64(4), true
	return metrics.State{
		Devices: []metrics.Device{{
			Name: "pci-0000-19-00-0", IBDev: "mlx5_0", Driver: "mlx5_core", Function: "pf", Protocol: "roce", Model: "MT4129",
			BoardID: "MT_0000000838", Firmware: "28.39.1002", PCI: "0000:19:00.0", NUMANode: "0", Owner: alone, Healthy: &yes,
			Taints: []metrics.Taint{{Key: "rdma.dev/port-errors", Effect: "None"}}, Conditions: []string{"port-errors"}, Falls: 3,
			Ports: []metrics.Port{{Number: 1, Active: true, BytesPerSecond: 50e9, Counters: counters.Port{
				Standard: []counters.Counter{{Name: "port_rcv_data", Value: 25}, {Name: "port_xmit_packets", Value: 7}},
				Hardware: []counters.Counter{{Name: "out_of_buffer", Value: 3}, {Name: "active_qps", Value: 12}}, Unreadable: 1,
			}}},
			Counters: counters.Device{Hardware: []counters.Counter{{Name: "cmds_err", Value: 0},
				{Name: "active_pds", Value: 2}}, Unreadable: 2},
		}, {
			Name: "pci-0000-29-00-0", IBDev: "mlx5_1", Ports: []metrics.Port{{Number: 1}}, Healthy: new(bool), Unused: true,
		}, {
			Name: "soft-\xff", IBDev: "rxe0", // no UTF-8: only its own series are lost
		}},
		Allocations: []metrics.Allocation{{Device: "pci-0000-19-00-0", DRADevice: "pci-0000-19-00-0", Owner: alone}},
		Containers: []metrics.Container{{Usage: rdmacgroup.Usage{
			PodUID: "0f1e2d3c", Container: "c0ffee", IBDev: "mlx5_0", Handles: 1, Objects: 3,
			MaxHandles: &four, MaxObjects: &four,
		}, Device: "pci-0000-19-00-0", Owner: alone}},
		Published:      map[string]int{"exclusive": 2, "shared": 0, "group": 0},
		Allocated:      map[string]int{"exclusive": 1, "shared": 0, "group": 0},
		PreparedClaims: 1, Conditions: map[string]int{"port-errors": 1, "port-down": 0}, Omitted: 5, Registered: true,
		Blocks:   []blocks.Usage{{IPAM: "roce", Size: 253, Addresses: make([]blocks.Address, 2)}, {IPAM: "rail1"}},
		Troubles: []metrics.Failure{{Request: "get resourceclaims", Reason: "Timeout"}},
		Failures: map[metrics.Failure]int{{Request: "get resourceclaims", Reason: "Timeout"}: 3},
	}
}

// TestCollector compares a scrape with a golden file.
func TestCollector(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics.NewCollector(state))
	got := text(t, r)
	golden.Bytes(t, "scrape.golden", []byte(got))
}

// all is a registry with all metrics of the driver.
func all(t *testing.T) (*metrics.Instruments, *prometheus.Registry) {
	t.Helper()
	i := metrics.New()
	i.Registry().MustRegister(metrics.NewCollector(state))
	return i, i.Registry()
}

// TestLint: names and units are as Prometheus wants them.
func TestLint(t *testing.T) {
	_, r := all(t)
	problems, err := promlint.New(strings.NewReader(text(t, r))).Lint()
	must.NoError(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestCatalog: each metric that is gathered is in the catalog, with its type.
func TestCatalog(t *testing.T) {
	i, r := all(t)
	catalog := map[string]metrics.Metric{}
	for _, m := range metrics.Catalog {
		_, twice := catalog[m.Name]
		test.True(t, !twice && m.Help != "" && m.Bound != "",
			test.Sprintf("%s is there twice, or says nothing of itself", m.Name))
		catalog[m.Name] = m
	}
	_ = i
	families, err := r.Gather()
	must.NoError(t, err)
	for _, f := range families {
		m, ok := catalog[f.GetName()]
		if !ok && strings.HasPrefix(f.GetName(), "rdma_") {
			t.Errorf("%s is not in the catalog", f.GetName())
		}
		if ok && !strings.EqualFold(string(m.Kind), f.GetType().String()) {
			t.Errorf("%s is a %s", f.GetName(), f.GetType())
		}
	}
}

// TestInstruments: what happens is counted, and phases are in buckets from 100
// microseconds on.
func TestInstruments(t *testing.T) {
	i := metrics.New()
	w := i.Start(metrics.Prepare)
	w.Lap(metrics.PhasePlan)
	boom := errors.New("boom")
	test.True(t, w.Fail(metrics.ReasonDevice, boom) == boom && w.Fail(metrics.ReasonDevice, nil) == nil,
		test.Sprint("errors do not pass"))
	w.Whole(metrics.PhaseClaim)
	i.Published()
	i.PublishFailed()
	i.Transitions([]health.Transition{{Condition: health.PortDown, Holds: true}, {Condition: health.PortDown},
		{Condition: health.PortDown, Holds: true}})
	i.HookReports([]hook.Report{{Outcome: hook.Clamped, Limits: []hook.LimitResult{{Outcome: hook.Limited}}},
		{Outcome: "what a later hook says"}})
	got := text(t, i.Registry())
	for _, want := range []string{
		`rdma_driver_hook_reports_total{outcome="clamped",what="memlock"} 1`,
		`rdma_driver_hook_reports_total{outcome="limited",what="limit"} 1`,
		`rdma_driver_hook_reports_total{outcome="denied",what="memlock"} 0`,
		`rdma_driver_prepare_duration_seconds_bucket{phase="plan",le="0.0001"} `,
		`rdma_driver_prepare_duration_seconds_bucket{phase="plan",le="52.4288"} 1`,
		`rdma_driver_prepare_duration_seconds_count{phase="claim"} 1`,
		`rdma_driver_prepare_duration_seconds_count{phase="spec"} 0`,
		`rdma_driver_claim_errors_total{operation="prepare",reason="device"} 1`,
		`rdma_driver_claim_errors_total{operation="prepare",reason="cdi"} 0`,
		`rdma_driver_publications_total 1`, `rdma_driver_publish_errors_total 1`,
		`rdma_driver_health_transitions_total{condition="port-down",to="bad"} 2`,
		`rdma_driver_health_transitions_total{condition="port-down",to="good"} 1`,
		`rdma_driver_health_transitions_total{condition="no-guid",to="bad"} 0`,
	} {
		test.StrContains(t, got, "\n"+want, test.Sprintf("no line %s", want))
	}
}

// TestCall: only calls for claims are measured, and errors of a whole call are the API
// server's.
func TestCall(t *testing.T) {
	i := metrics.New()
	answer := func(resp any, err error) grpc.UnaryHandler {
		return func(context.Context, any) (any, error) { return resp, err }
	}
	boom := errors.New("no such claim")
	for _, req := range []any{&drapb.NodePrepareResourcesRequest{}, &drapb.NodeUnprepareResourcesRequest{}, "GetInfo"} {
		resp, err := i.Call(t.Context(), req, answer("yes", nil))
		test.True(t, resp == "yes" && err == nil, test.Sprintf("answer %v, %v", resp, err))
		_, err = i.Call(t.Context(), req, answer(nil, boom))
		test.True(t, err == boom, test.Sprintf("error %v", err))
	}
	got := text(t, i.Registry())
	for _, want := range []string{
		`rdma_driver_prepare_duration_seconds_count{phase="call"} 2`,
		`rdma_driver_unprepare_duration_seconds_count{phase="call"} 2`,
		`rdma_driver_claim_errors_total{operation="prepare",reason="api"} 1`,
	} {
		test.StrContains(t, got, "\n"+want, test.Sprintf("no line %s", want))
	}
}

// TestNothing: a driver without instruments measures nothing, and works.
func TestNothing(t *testing.T) {
	var i *metrics.Instruments
	w := i.Start(metrics.Publish)
	w.Lap(metrics.PhaseBuild)
	w.Whole(metrics.PhaseAll)
	test.True(t, w.Fail(metrics.ReasonCDI, os.ErrExist) == os.ErrExist, test.Sprint("errors do not pass"))
	i.Published()
	i.PublishFailed()
	i.Transitions([]health.Transition{{}})
	i.HookReports([]hook.Report{{}})
	_, err := i.Call(t.Context(), &drapb.NodePrepareResourcesRequest{},
		func(context.Context, any) (any, error) { return nil, os.ErrExist })
	test.True(t, err == os.ErrExist, test.Sprintf("error %v", err))
}

// TestReadEnds: a scrape ends whatever the host does.
func TestReadEnds(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(metrics.NewCollector(func(ctx context.Context) metrics.State {
		deadline, ok := ctx.Deadline()
		test.True(t, ok && time.Until(deadline) <= 10*time.Second, test.Sprint("no end in time for Prometheus"))
		return metrics.State{}
	}))
	text(t, r)
}
