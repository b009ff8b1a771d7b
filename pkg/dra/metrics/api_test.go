package metrics

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestAPI: requests are counted by method and status, and what is trouble is named.
func TestAPI(t *testing.T) {
	a := New()
	for _, code := range []string{"200", "404", "409", "429", "503", "<error>", "599", "-7"} {
		results{a}.Increment(t.Context(), code, "GET", "api.example.com")
	}
	retries{a}.IncrementRetry(t.Context(), "429", "GET", "api.example.com")
	latencies{a}.Observe(t.Context(), "GET", url.URL{}, time.Second)
	families, err := a.Registry().Gather()
	must.NoError(t, err)
	var got []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "rdma_driver_api_") {
			continue
		}
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetName() + "=" + l.GetValue()
			}
			if c := m.GetCounter(); c != nil {
				line += fmt.Sprint(" ", c.GetValue())
			}
			got = append(got, strings.TrimPrefix(line, "rdma_driver_api_"))
		}
	}
	want := []string{
		"last_error_timestamp_seconds reason=599", "last_error_timestamp_seconds reason=ServiceUnavailable",
		"last_error_timestamp_seconds reason=TooManyRequests", "last_error_timestamp_seconds reason=Unreachable",
		"request_duration_seconds method=GET", "request_retries_total code=429 1",
		"requests_total code=200 method=GET 1", "requests_total code=404 method=GET 1",
		"requests_total code=409 method=GET 1",
		"requests_total code=429 method=GET 1", "requests_total code=503 method=GET 1",
		"requests_total code=599 method=GET 1",
		"requests_total code=error method=GET 2",
	}
	test.Eq(t, strings.Join(want, "\n"), strings.Join(got, "\n"), test.Sprint("gathered"))
}
