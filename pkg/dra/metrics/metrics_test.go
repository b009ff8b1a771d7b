package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
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
	i.HookReports([]record.Report{{Outcome: record.Clamped, Limits: []record.DeviceLimit{{Outcome: record.Limited}}},
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
	i.HookReports([]record.Report{{}})
	_, err := i.Call(t.Context(), &drapb.NodePrepareResourcesRequest{},
		func(context.Context, any) (any, error) { return nil, os.ErrExist })
	test.True(t, err == os.ErrExist, test.Sprintf("error %v", err))
}

// TestReadEnds: a scrape ends whatever the host does.
func TestReadEnds(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(metrics.NewCollector(func(ctx context.Context, _ metrics.Samples) {
		deadline, ok := ctx.Deadline()
		test.True(t, ok && time.Until(deadline) <= 10*time.Second, test.Sprint("no end in time for Prometheus"))
	}))
	text(t, r)
}
