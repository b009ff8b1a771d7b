package metrics

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/version"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// Instruments measure the driver. All methods do nothing on a nil *Instruments.
type Instruments struct {
	registry *prometheus.Registry

	// These have the metrics by name.
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
}

// Operation is a timed operation.
type Operation string

// The operations.
const (
	Prepare   Operation = "prepare"
	Unprepare Operation = "unprepare"
	Publish   Operation = "publish"
	Move      Operation = "move"
)

// Phase is a part of an operation.
type Phase string

// The phases.
const (
	PhaseWait     Phase = "wait"      // Prepare: for another call on the same claim
	PhasePlan     Phase = "plan"      // Prepare: make the plan from claim and class
	PhaseSpec     Phase = "spec"      // Prepare: make the CDI spec, including the wait while the host changes
	PhaseRecord   Phase = "record"    // Prepare: take locks and write the record
	PhaseWrite    Phase = "write"     // Prepare: write the CDI spec
	PhaseClaim    Phase = "claim"     // Prepare, Unprepare: all of one claim
	PhaseCall     Phase = "call"      // Prepare, Unprepare: a call of the kubelet, with the GETs of its claims
	PhaseDecide   Phase = "decide"    // Publish: policy and health
	PhaseBuild    Phase = "build"     // Publish: slices
	PhaseHandOver Phase = "hand_over" // Publish: hand the slices to the API client
	PhaseAll      Phase = "all"       // Publish: the sum
	PhaseIn       Phase = "in"        // Move: into the network namespace of a pod
	PhaseOut      Phase = "out"       // Move: back to the host
)

var durations = map[Operation]Metric{
	Prepare: PrepareDuration, Unprepare: UnprepareDuration, Publish: PublishDuration, Move: MoveDuration,
}

var phases = map[Operation][]Phase{
	Prepare:   {PhaseWait, PhasePlan, PhaseSpec, PhaseRecord, PhaseWrite, PhaseClaim, PhaseCall},
	Unprepare: {PhaseClaim, PhaseCall},
	Publish:   {PhaseDecide, PhaseBuild, PhaseHandOver, PhaseAll},
	Move:      {PhaseIn, PhaseOut},
}

// Reason is why a claim failed.
type Reason string

// The reasons.
const (
	ReasonAPI        Reason = "api"        // the API server did not return the claim
	ReasonGaveUp     Reason = "gave_up"    // the kubelet canceled the call
	ReasonParameters Reason = "parameters" // the claim or its class has invalid or forbidden parameters
	ReasonDevice     Reason = "device"     // the device is gone or has changed
	ReasonNetns      Reason = "netns"      // the host is in exclusive network namespace mode
	ReasonInUse      Reason = "in_use"     // another claim has the device
	ReasonRecord     Reason = "record"     // the record cannot be written or removed, or the spec not removed
	ReasonCDI        Reason = "cdi"        // the CDI directory cannot be written
)

var reasons = map[Operation][]Reason{
	Prepare:   {ReasonAPI, ReasonGaveUp, ReasonParameters, ReasonDevice, ReasonNetns, ReasonInUse, ReasonRecord, ReasonCDI},
	Unprepare: {ReasonAPI, ReasonRecord},
}

// buckets start at 100 microseconds, the time of an undisturbed Prepare, and double up to
// 52 seconds. The kubelet gives up after 45.
var buckets = prometheus.ExponentialBuckets(100e-6, 2, 20)

// New makes instruments, with a registry of their own.
func New() *Instruments {
	i := &Instruments{
		prometheus.NewRegistry(), map[string]*prometheus.CounterVec{},
		map[string]*prometheus.GaugeVec{}, map[string]*prometheus.HistogramVec{},
	}
	auto := promauto.With(i.registry)
	for _, m := range Catalog {
		switch {
		case m.desc != nil: // read at each scrape
		case m.Kind == Counter:
			i.counters[m.Name] = auto.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
		case m.Kind == Gauge:
			i.gauges[m.Name] = auto.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
		case m.Kind == Histogram:
			i.histograms[m.Name] = auto.NewHistogramVec(
				prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets}, m.Labels)
		}
	}
	// Every series starts at 0, so that the first event is an increase.
	for op, list := range phases {
		for _, p := range list {
			i.histograms[durations[op].Name].WithLabelValues(string(p))
		}
	}
	for op, list := range reasons {
		for _, r := range list {
			i.counter(ClaimErrors, string(op), string(r))
		}
	}
	for _, p := range phases[Move] {
		i.counter(MoveErrors, string(p))
	}
	for _, c := range health.Conditions() {
		i.counter(HealthTransitions, string(c), "bad")
		i.counter(HealthTransitions, string(c), "good")
	}
	for what, outcomes := range hookOutcomes {
		for _, o := range outcomes {
			i.counter(HookReports, what, string(o))
		}
	}
	for _, k := range record.Kinds.Kinds {
		for _, r := range checkResults {
			i.counter(ContainerChecks, k.ID, r)
		}
	}
	i.counter(Publications)
	i.counter(PublishErrors)
	i.gauges[BuildInfo.Name].WithLabelValues(version.Get(), runtime.Version()).Set(1)
	i.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return i
}

// Registry returns the registry of the instruments. Callers add the collector of the node to it, and serve
// scrapes from it.
func (i *Instruments) Registry() *prometheus.Registry { return i.registry }

func (i *Instruments) counter(m Metric, labels ...string) prometheus.Counter {
	return i.counters[m.Name].WithLabelValues(labels...)
}

func (i *Instruments) count(m Metric, labels ...string) {
	if i != nil {
		i.counter(m, labels...).Inc()
	}
}

// hookOutcomes are the outcomes that the hook can report for each of its tasks.
var hookOutcomes = map[string][]record.Outcome{
	"memlock": {record.Raised, record.Already, record.Clamped, record.Denied, record.Skipped, record.Failed},
	"limit":   {record.Limited, record.Already, record.Unenforced, record.Failed},
}

// Watch measures one operation. It is for one goroutine.
type Watch struct {
	i          *Instruments
	operation  Operation
	start, lap time.Time
}

// Start begins to measure an operation.
func (i *Instruments) Start(o Operation) Watch {
	now := time.Now()
	return Watch{i, o, now, now}
}

// Lap ends a phase that began at the end of the previous one.
func (w *Watch) Lap(p Phase) {
	now := time.Now()
	w.observe(p, now.Sub(w.lap))
	w.lap = now
}

// Whole records the time since Start under the name of a phase.
func (w *Watch) Whole(p Phase) { w.observe(p, time.Since(w.start)) }

func (w *Watch) observe(p Phase, d time.Duration) {
	if w.i != nil {
		w.i.histograms[durations[w.operation].Name].WithLabelValues(string(p)).Observe(d.Seconds())
	}
}

// Fail counts an error of a claim, and returns the error. It does nothing for nil.
func (w *Watch) Fail(r Reason, err error) error {
	if err != nil {
		w.i.count(ClaimErrors, string(w.operation), string(r))
	}
	return err
}

// Published counts that slices were handed to the API client.
func (i *Instruments) Published() { i.count(Publications) }

// PublishFailed counts a failed write of slices.
func (i *Instruments) PublishFailed() { i.count(PublishErrors) }

// MoveFailed counts a failed move of HCAs.
func (i *Instruments) MoveFailed(direction Phase) { i.count(MoveErrors, string(direction)) }

// HookReports counts the hook's reports. It skips outcomes that this version does not know,
// because the hook may be of another version.
func (i *Instruments) HookReports(list []record.Report) {
	count := func(what string, o record.Outcome) {
		if slices.Contains(hookOutcomes[what], o) {
			i.count(HookReports, what, string(o))
		}
	}
	for _, r := range list {
		count("memlock", r.Outcome)
		for _, l := range r.Limits {
			count("limit", l.Outcome)
		}
		for _, c := range r.Checks {
			result := string(c.Severity)
			if c.Severity.Bad() {
				result = "unusable"
			}
			if record.Kinds.Find(c.ID) != nil && slices.Contains(checkResults, result) {
				i.count(ContainerChecks, c.ID, result)
			}
		}
	}
}

// checkResults are the results of checks of containers.
var checkResults = []string{string(finding.OK), "unusable", string(finding.NotSeen)}

// Transitions counts changes of health.
func (i *Instruments) Transitions(list []health.Transition) {
	for _, t := range list {
		to := "good"
		if t.Holds {
			to = "bad"
		}
		i.count(HealthTransitions, string(t.Condition), to)
	}
}

// Call answers a call of the kubelet with handler. It measures calls for claims, including
// the library's requests for these claims before it calls the driver.
func (i *Instruments) Call(ctx context.Context, req any, handler grpc.UnaryHandler) (any, error) {
	var w Watch
	switch req.(type) {
	case *drapb.NodePrepareResourcesRequest, *drav1beta1.NodePrepareResourcesRequest:
		w = i.Start(Prepare)
	case *drapb.NodeUnprepareResourcesRequest, *drav1beta1.NodeUnprepareResourcesRequest:
		w = i.Start(Unprepare)
	default:
		return handler(ctx, req)
	}
	resp, err := handler(ctx, req)
	w.Whole(PhaseCall)
	// The answer contains the errors of claims. An error of the call means that the library got no claim.
	return resp, w.Fail(ReasonAPI, err)
}
