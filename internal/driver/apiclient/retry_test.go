package apiclient

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestRetriesAreSpread: a server that is too busy wants all nodes to wait equally long. They come back at different
// times, and none before.
func TestRetriesAreSpread(t *testing.T) {
	wait := "10"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", wait)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	through := &observing{http.DefaultTransport, &Troubles{}, answerTime}
	retryAfter := func() string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/nodes/a", http.NoBody)
		must.NoError(t, err)
		resp, err := through.RoundTrip(request)
		must.NoError(t, err)
		resp.Body.Close()
		return resp.Header.Get("Retry-After")
	}
	seen := map[int]int{}
	for range 300 {
		seconds, err := strconv.Atoi(retryAfter())
		if err != nil || seconds < 10 || seconds > 20 {
			t.Fatalf("wait for %d s: %v", seconds, err)
		}
		seen[seconds]++
	}
	test.GreaterEq(t, 5, len(seen), test.Sprintf("300 answers had the waits %v", seen))
	for _, wait = range []string{"0", "Wed, 21 Oct 2026 07:28:00 GMT"} {
		test.Eq(t, wait, retryAfter(), test.Sprint("became"))
	}
}
