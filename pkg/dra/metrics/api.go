package metrics

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	clientmetrics "k8s.io/client-go/tools/metrics"
)

// MeasureAPI measures the requests of all API clients of the process. client-go accepts one
// registration, so only the first call has an effect.
func (i *Instruments) MeasureAPI() {
	clientmetrics.Register(clientmetrics.RegisterOpts{
		RequestResult: results{i}, RequestRetry: retries{i}, RequestLatency: latencies{i},
	})
}

// These count and time the requests of client-go, which reports each of them.
type (
	results   struct{ *Instruments }
	retries   struct{ *Instruments }
	latencies struct{ *Instruments }
)

func (r results) Increment(_ context.Context, code, method, _ string) {
	code = normal(code)
	r.count(APIRequests, method, code)
	if reason := errorReason(code); reason != "" {
		r.gauges[APILastError.Name].WithLabelValues(reason).SetToCurrentTime()
	}
}

func (r retries) IncrementRetry(_ context.Context, code, _, _ string) {
	r.count(APIRetries, normal(code))
}

func (l latencies) Observe(_ context.Context, verb string, _ url.URL, d time.Duration) {
	l.histograms[APIDuration.Name].WithLabelValues(verb).Observe(d.Seconds())
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
