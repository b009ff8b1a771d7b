package statuspage_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/statuspage"
)

func serve(t *testing.T, p *statuspage.Page) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(statuspage.Handler(func(context.Context) *statuspage.Page { return p }))
	t.Cleanup(server.Close)
	return server
}

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
	h := statuspage.Handler(func(context.Context) *statuspage.Page { return empty(t, "none") })
	for _, tc := range []struct {
		target, accept string
		status         int
		want           string
	}{
		{"/status", "", 200, "text/html; charset=utf-8"},
		{"/status", "*/*", 200, "text/html; charset=utf-8"},
		{"/status", "application/json", 200, "application/json"},
		{"/status", "Application/JSON;q=0.9, */*", 200, "application/json"},
		{"/status", "text/html,application/xhtml+xml,application/json;q=0.9", 200, "text/html; charset=utf-8"},
		{"/status?o=json", "text/html", 200, "application/json"},
		{"/status?o=html", "application/json", 200, "text/html; charset=utf-8"},
		{"/status?o=table", "", 200, "text/plain; charset=utf-8"},
		{"/status?o=%3Cscript%3E", "", 400, "text/plain; charset=utf-8"},
	} {
		resp := get(t, h, tc.target, tc.accept)
		got := resp.Header.Get("Content-Type")
		test.True(t, resp.StatusCode == tc.status && got == tc.want,
			test.Sprintf("%s, Accept %q: %d %s, want %d %s", tc.target, tc.accept, resp.StatusCode, got,
				tc.status, tc.want))
		for header, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Vary": "Accept",
		} {
			test.Eq(t, want, resp.Header.Get(header), test.Sprintf("%s: header %s", tc.target, header))
		}
	}
}

// TestJSON: a program reads back what the page is made from.
func TestJSON(t *testing.T) {
	want := busy(t)
	var got statuspage.Page
	must.NoError(t, json.Unmarshal(write(t, want, "json"), &got))
	want.Topology, got.Topology = nil, nil // its tests are its own
	test.Eq(t, want, &got, test.Sprint("read back"))
}

// TestPolicy: the browser may use the style sheets that stand in the page, and nothing else.
func TestPolicy(t *testing.T) {
	page := busy(t)
	h := statuspage.Handler(func(context.Context) *statuspage.Page { return page })
	policy := get(t, h, "/status", "").Header.Get("Content-Security-Policy")
	test.True(t, strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") &&
		!strings.Contains(policy, "unsafe"), test.Sprintf("policy %q", policy))
	styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllSubmatch(write(t, page, "html"), -1)
	must.Eq(t, 2, len(styles), must.Sprint("style sheets in the page"))
	for _, style := range styles {
		sum := sha256.Sum256(style[1])
		if hash := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, hash) {
			t.Errorf("the policy lacks %s of the style sheet:\n%s", hash, style[1])
		}
	}
}

// TestHandlerGone: nobody looks at the host for who is gone.
func TestHandlerGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := statuspage.Handler(func(context.Context) *statuspage.Page {
		t.Error("a page was made")
		return empty(t, "none")
	})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/status", nil))
}
