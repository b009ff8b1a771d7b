package scale

import (
	"context"
	"maps"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// ledger counts what one driver asks of the API server, and what passes over its connection.
type ledger struct {
	mu             sync.Mutex
	requests       map[string]int // by kind, with those that failed
	refused        int            // answers with status 429
	unanswered     int            // requests that got no answer
	sent, received atomic.Int64   // bytes, with TLS
	all            *pulse
}

// pulse counts the requests of all drivers in each second.
type pulse struct {
	mu      sync.Mutex
	seconds map[int64]int
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seconds[time.Now().Unix()]++
}

// most is the largest number of requests in a second since a time.
func (p *pulse) most(since time.Time) (most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for second, n := range p.seconds {
		if second >= since.Unix() {
			most = max(most, n)
		}
	}
	return most
}

// wrap counts requests, each repetition by the client too. A request counts before it has its answer: others see what
// it did before that.
func (l *ledger) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.all.beat()
		l.mu.Lock()
		l.requests[kindOf(r)]++
		l.mu.Unlock()
		response, err := next.RoundTrip(r)
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case err != nil:
			l.unanswered++
		case response.StatusCode == http.StatusTooManyRequests:
			l.refused++
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// dial opens a connection whose bytes are counted. It also keeps client-go from sharing one connection among drivers.
func (l *ledger) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{conn, l}, nil
}

type countedConn struct {
	net.Conn
	ledger *ledger
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.ledger.received.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.ledger.sent.Add(int64(n))
	return n, err
}

// tally is what a ledger has counted up to a moment, or between two.
type tally struct {
	requests            map[string]int
	refused, unanswered int
	sent, received      int64
}

func (l *ledger) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tally{maps.Clone(l.requests), l.refused, l.unanswered, l.sent.Load(), l.received.Load()}
}

// since is what was counted after an earlier moment.
func (t tally) since(before tally) tally {
	out := tally{map[string]int{}, t.refused - before.refused, t.unanswered - before.unanswered,
		t.sent - before.sent, t.received - before.received}
	for kind, n := range t.requests {
		if n > before.requests[kind] {
			out.requests[kind] = n - before.requests[kind]
		}
	}
	return out
}

// objectPath has the resource, the name and the subresource of a path of the API.
var objectPath = regexp.MustCompile(`^(?:/api|/apis/[^/]+)/[^/]+(?:/namespaces/[^/]+)?/` +
	`([a-z]+)(?:/([^/]+))?(?:/([a-z]+))?$`)

// kindOf names a kind of request: its verb, and the resource with its subresource.
func kindOf(r *http.Request) string {
	m := objectPath.FindStringSubmatch(r.URL.Path)
	if m == nil {
		return r.Method + " " + r.URL.Path
	}
	verb, resource := r.Method, m[1]
	if m[3] != "" {
		resource += "/" + m[3]
	}
	if verb == http.MethodGet && m[2] == "" {
		verb = "LIST"
		if watch := r.URL.Query().Get("watch"); watch != "" && watch != "false" {
			verb = "WATCH"
		}
	}
	return verb + " " + resource
}

// TestKindOf: the requests of a driver have the names that docs/dev/benchmarks.md uses.
func TestKindOf(t *testing.T) {
	for request, want := range map[string]string{
		"GET /api/v1/nodes/n": "GET nodes",
		"GET /apis/resource.k8s.io/v1/resourceslices?fieldSelector=a":         "LIST resourceslices",
		"GET /apis/resource.k8s.io/v1/resourceslices?watch=true":              "WATCH resourceslices",
		"PATCH /apis/resource.k8s.io/v1/namespaces/a/resourceclaims/c/status": "PATCH resourceclaims/status",
		"POST /api/v1/namespaces/a/events":                                    "POST events",
		"GET /readyz":                                                         "GET /readyz",
	} {
		method, url, _ := strings.Cut(request, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		must.NoError(t, err)
		test.Eq(t, want, kindOf(r), test.Sprint(request))
	}
}
