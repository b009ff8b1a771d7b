package webserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// request is one of a token, from an address.
func request(ctx context.Context, from, token string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
	r.RemoteAddr = from
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// TestReaderAmongJunk: who was let in before is let in again while tokens that nobody knows come from the same address.
func TestReaderAmongJunk(t *testing.T) {
	const address = "192.0.2.1:1234"
	api := drivertest.NewAPI(t)
	api.AddUser("prometheus", "good", "/metrics")
	now := clocktesting.NewFakePassiveClock(time.Now())
	g := newGuard(api.Client(t), now)
	must.EqOp(t, allowed, g.judge(request(t.Context(), address, "good")), must.Sprint("before the flood"))
	ctx, cancel := context.WithCancel(t.Context())
	var refused atomic.Int32
	var flooding sync.WaitGroup
	for i := range 4 * maxWaitingOf {
		flooding.Go(func() {
			for j := 0; ctx.Err() == nil; j++ {
				if v := g.judge(request(ctx, address, fmt.Sprintf("junk-%d-%d", i, j))); v.status == http.StatusTooManyRequests {
					refused.Add(1)
				}
			}
		})
	}
	defer func() { cancel(); flooding.Wait() }()
	for range 5 {
		before := refused.Load()
		drivertest.Eventually(t, func() error {
			if refused.Load() == before {
				return fmt.Errorf("no junk was refused")
			}
			return nil
		})
		now.SetTime(now.Now().Add(2 * keepYes))
		asked := api.Count(drivertest.ReviewAccess)
		test.EqOp(t, allowed, g.judge(request(t.Context(), address, "good")), test.Sprint("during the flood"))
		test.NotEq(t, asked, api.Count(drivertest.ReviewAccess), test.Sprint("the API server was not asked again"))
	}
}

// TestRevoked: who may not read any more is a stranger again.
func TestRevoked(t *testing.T) {
	api := drivertest.NewAPI(t)
	api.AddUser("prometheus", "good", "/metrics")
	now := clocktesting.NewFakePassiveClock(time.Now())
	g := newGuard(api.Client(t), now)
	for _, tc := range []struct {
		paths   []string
		want    int
		readers int
	}{{[]string{"/metrics"}, http.StatusOK, 1}, {nil, http.StatusForbidden, 0}, {[]string{"/metrics"}, http.StatusOK, 1}} {
		api.AddUser("prometheus", "good", tc.paths...)
		now.SetTime(now.Now().Add(2 * keepYes))
		if v := g.judge(request(t.Context(), "192.0.2.1:1", "good")); v.status != tc.want ||
			len(g.readers.Keys()) != tc.readers {
			t.Errorf("who may get %v: %v, and %d readers are remembered", tc.paths, v, len(g.readers.Keys()))
		}
	}
}

// TestQueue: few are in at a time, whoever they are, and a source has few places.
func TestQueue(t *testing.T) {
	q := newQueue(maxWaitingOf)
	var inside, most, entered, refused atomic.Int32
	var asking sync.WaitGroup
	hold := make(chan struct{})
	for i := range 100 {
		asking.Go(func() {
			leave, err := q.enter(t.Context(), source(fmt.Sprintf("192.0.2.%d:1", i)))
			if err != nil {
				refused.Add(1)
				return
			}
			defer leave()
			most.Store(max(most.Load(), inside.Add(1)))
			entered.Add(1)
			<-hold
			inside.Add(-1)
		})
	}
	drivertest.Eventually(t, func() error {
		if inside.Load() != reviewsAtOnce || refused.Load() < 100-maxWaiting {
			return fmt.Errorf("%d are in, %d were refused", inside.Load(), refused.Load())
		}
		return nil
	})
	close(hold)
	asking.Wait()
	if most.Load() > reviewsAtOnce || entered.Load()+refused.Load() != 100 {
		t.Errorf("%d were in at a time, %d in all, %d were refused", most.Load(), entered.Load(), refused.Load())
	}
	if q.total != 0 || len(q.waiting) != 0 || len(q.turns) != 0 {
		t.Errorf("after all have left: %d places, %v, %d turns", q.total, q.waiting, len(q.turns))
	}
}

// TestSurplus: which connection is closed for a new one.
func TestSurplus(t *testing.T) {
	l := &connections{}
	add := func(from string, reader bool) (c, surplus *connection) {
		c = &connection{owner: l, from: netip.MustParsePrefix(from)}
		c.reader.Store(reader)
		return c, l.add(c)
	}
	scraper, _ := add("192.0.2.1/32", true)
	other, _ := add("192.0.2.2/32", false)
	first, _ := add("192.0.2.3/32", false)
	for range maxConnections - 3 {
		if _, surplus := add("192.0.2.3/32", false); surplus != nil {
			t.Fatalf("%v goes while there is room", surplus.from)
		}
	}
	if _, surplus := add("192.0.2.4/32", false); surplus != first {
		t.Errorf("%v goes, want the oldest of the source with the most", surplus.from)
	}
	for _, c := range l.open {
		c.reader.Store(c != other)
	}
	if _, surplus := add("192.0.2.4/32", true); surplus != other {
		t.Errorf("%v goes, want the only one that has read nothing", surplus.from)
	}
	for _, c := range l.open {
		c.reader.Store(true)
	}
	if _, surplus := add("192.0.2.1/32", true); surplus == nil || surplus.from.String() != "192.0.2.3/32" {
		t.Errorf("%v goes, want one of the source with the most", surplus)
	}
	if len(l.open) != maxConnections || l.open[0] != scraper {
		t.Errorf("%d are open, the first of %v", len(l.open), l.open[0].from)
	}
	near, far := net.Pipe()
	defer near.Close()
	scraper.Conn = far
	if scraper.Close() != nil || len(l.open) != maxConnections-1 {
		t.Error("a closed connection counts")
	}
}

func TestSource(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1/32", "[::ffff:192.0.2.1]:80": "192.0.2.1/32",
		"[2001:db8:0:1:2:3:4:5]:80": "2001:db8:0:1::/64",
		"[fe80::1%eth0]:80":         "fe80::/64", "@": "invalid Prefix",
	} {
		test.Eq(t, want, source(address).String(), test.Sprintf("%s counts", address))
	}
}
