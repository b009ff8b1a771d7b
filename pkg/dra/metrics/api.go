package metrics

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// api counts and times the requests of client-go, which reports each of them.
type api struct {
	requests, retries *prometheus.CounterVec
	durations         *prometheus.HistogramVec
	lastError         *prometheus.GaugeVec
}

func newAPI() *api {
	return &api{
		requests: counterVec(APIRequests), retries: counterVec(APIRetries), durations: histogramVec(APIDuration),
		lastError: gaugeVec(APILastError),
	}
}

func (a *api) collectors() []prometheus.Collector {
	return []prometheus.Collector{a.requests, a.retries, a.durations, a.lastError}
}

// MeasureAPI measures the requests of all API clients of the process. client-go accepts one
// registration, so only the first call has an effect.
func (i *Instruments) MeasureAPI() {
	clientmetrics.Register(clientmetrics.RegisterOpts{
		RequestResult: results{i.api}, RequestRetry: retries{i.api}, RequestLatency: latencies{i.api},
	})
}

type (
	results   struct{ *api }
	retries   struct{ *api }
	latencies struct{ *api }
)

func (r results) Increment(_ context.Context, code, method, _ string) {
	code = normal(code)
	r.requests.WithLabelValues(method, code).Inc()
	if reason := errorReason(code); reason != "" {
		r.lastError.WithLabelValues(reason).SetToCurrentTime()
	}
}

func (r retries) IncrementRetry(_ context.Context, code, _, _ string) {
	r.retries.WithLabelValues(normal(code)).Inc()
}

func (l latencies) Observe(_ context.Context, verb string, _ url.URL, d time.Duration) {
	l.durations.WithLabelValues(verb).Observe(d.Seconds())
}

// noAnswer is the code of a request that got no answer.
const noAnswer = "error"

// normal returns a valid status code unchanged, and noAnswer for everything else, such as
// client-go's "<error>".
func normal(code string) string {
	if n, err := strconv.Atoi(code); err == nil && n >= 100 && n < 600 {
		return strconv.Itoa(n)
	}
	return noAnswer
}

// errorReason names the error of an answer, "" for none. NotFound, Conflict and Gone count as
// none, because they occur in normal operation.
func errorReason(code string) string {
	if code == noAnswer {
		return "Unreachable"
	}
	n, _ := strconv.Atoi(code)
	switch {
	case n < 400, n == http.StatusNotFound, n == http.StatusConflict, n == http.StatusGone:
		return ""
	case http.StatusText(n) == "":
		return code
	}
	return strings.ReplaceAll(http.StatusText(n), " ", "")
}
