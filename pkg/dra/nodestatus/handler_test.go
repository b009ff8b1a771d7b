package nodestatus_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
)

func get(t *testing.T, h http.Handler, target, accept string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestHandlerFormats: the query parameter decides, then the Accept header.
func TestHandlerFormats(t *testing.T) {
	h := nodestatus.Handler(func(context.Context) *nodestatus.Status { return empty(t, "none") })
	for _, tc := range []struct {
		target, accept string
		status         int
		want           string
	}{
		{"/status", "", 200, "text/plain; charset=utf-8"},
		{"/status", "text/html,application/xhtml+xml", 200, "text/plain; charset=utf-8"},
		{"/status", "Application/JSON;q=0.9, */*", 200, "application/json"},
		{"/status?o=json", "text/html", 200, "application/json"},
		{"/status?o=table", "application/json", 200, "text/plain; charset=utf-8"},
		{"/status?o=%3Cscript%3E", "", 400, "text/plain; charset=utf-8"},
	} {
		resp := get(t, h, tc.target, tc.accept)
		got := resp.Header.Get("Content-Type")
		test.True(t, resp.StatusCode == tc.status && got == tc.want,
			test.Sprintf("%s, Accept %q: %d %s, want %d %s", tc.target, tc.accept, resp.StatusCode, got,
				tc.status, tc.want))
		for header, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Vary": "Accept",
		} {
			test.Eq(t, want, resp.Header.Get(header), test.Sprintf("%s: header %s", tc.target, header))
		}
	}
}

// TestJSON: a program reads back what the page is made from.
func TestJSON(t *testing.T) {
	want := busy(t)
	var got nodestatus.Status
	must.NoError(t, json.Unmarshal(write(t, want, "json"), &got))
	want.Topology, got.Topology = nil, nil // its tests are its own
	test.Eq(t, want, &got, test.Sprint("read back"))
}

// TestHandlerGone: nobody looks at the host for who is gone.
func TestHandlerGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := nodestatus.Handler(func(context.Context) *nodestatus.Status {
		t.Error("a page was made")
		return empty(t, "none")
	})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/status", nil))
}
