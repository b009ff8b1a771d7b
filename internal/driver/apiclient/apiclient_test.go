package apiclient

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// guarded is a server that takes one token, and notes the bodies of requests by token.
type guarded struct {
	mu     sync.Mutex
	takes  string
	bodies map[string][]string
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	g.bodies[token] = append(g.bodies[token], string(body))
	w.Header().Set("Content-Type", "application/json")
	if token != g.takes {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	fmt.Fprint(w, `{"apiVersion": "v1", "kind": "Event"}`)
}

// asked returns how many requests came with a token since the last time.
func (g *guarded) asked(token string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.bodies[token])
	g.bodies[token] = nil
	return n
}

// TestTokenIsRenewedAtOnce: a request that is refused for its token is repeated with the
// one that the file has by then, and only then, whole.
func TestTokenIsRenewedAtOnce(t *testing.T) {
	server := &guarded{takes: "first", bodies: map[string][]string{}}
	front := httptest.NewServer(server)
	defer front.Close()
	file := filepath.Join(t.TempDir(), "token")
	token := func(content string) {
		must.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	token("first\n")
	client, troubles, err := New(&rest.Config{Host: front.URL, BearerToken: "of the file", BearerTokenFile: file})
	must.NoError(t, err)
	post := func() error {
		event := &corev1.Event{Reason: "Body"}
		_, err := client.CoreV1().Events("default").Create(context.Background(), event, metav1.CreateOptions{})
		return err
	}
	want := func(err error, fails bool, first, second int) {
		t.Helper()
		if got := [2]int{server.asked("first"), server.asked("second")}; (err != nil) != fails ||
			got != [2]int{first, second} {
			t.Errorf("error is %v, requests with the first and the second token are %v, want %v", err, got,
				[2]int{first, second})
		}
	}
	want(post(), false, 1, 0)
	server.takes = "second"
	want(post(), true, 1, 0) // nothing newer: not asked twice
	server.takes = "first"
	want(post(), false, 1, 0)
	server.takes = "second"
	token("second\n")
	err = post()
	if bodies := append(server.bodies["first"], server.bodies["second"]...); len(bodies) != 2 || bodies[0] != bodies[1] ||
		!strings.Contains(bodies[0], "Body") {
		t.Errorf("the bodies are %q, want the same event twice", bodies)
	}
	want(err, false, 1, 1)
	must.NoError(t, os.Remove(file))
	server.takes = "third"
	want(post(), true, 0, 1)
	test.ErrorContains(t, post(), file, test.Sprint("without the file"))
	test.Eq(t, 2, troubles.Failures()[Failure{"post events", Unauthorized}],
		test.Sprint("requests were refused"))
}

// answering is a transport.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func status(code int, header ...string) answering {
	return func(r *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: http.Header{}, Body: http.NoBody,
			Request: r}
		for i := 0; i < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return resp, nil
	}
}

func fails(err error) answering {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

const claimURL = "https://api/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/c"

func send(ctx context.Context, o *observing, method, url string) error {
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := o.RoundTrip(r)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// TestReasons: each kind of trouble has its reason.
func TestReasons(t *testing.T) {
	late := func(r *http.Request) (*http.Response, error) {
		time.Sleep(2 * time.Second)
		return status(200)(r)
	}
	hangs := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for name, tc := range map[string]struct {
		method  string
		server  answering
		want    Reason
		message string
	}{
		"well":      {"GET", status(200), Well, ""},
		"not found": {"GET", status(404, "Content-Type", "application/json"), Well, ""},
		"not found, in the other encoding": {
			"GET", status(404, "Content-Type", "application/vnd.kubernetes.protobuf"), Well, "",
		},
		"not found, by a proxy": {
			"GET", status(404, "Content-Type", "text/html; charset=utf-8"), ServerError, "404, not in the form of the API server",
		},
		"not found, by anybody": {"GET", status(404), ServerError, "404, not in the form of the API server"},
		"there already":         {"POST", status(409), Well, ""},
		"expired":               {"GET", status(401), Unauthorized, "401"},
		"no rights":             {"GET", status(403), Forbidden, "403"},
		"conflict":              {"PUT", status(409), Conflict, "409"},
		"not understood":        {"PUT", status(422), Invalid, "422"},
		"too busy":              {"GET", status(429, "Retry-After", "7"), Throttled, "429, retry after 7 s"},
		"broken":                {"GET", status(500), ServerError, "500"},
		"slow":                  {"GET", late, Slow, "answered after 2s"},
		"hangs":                 {"GET", hangs, NoAnswer, "did not answer within 30s"},
		"down":                  {"GET", fails(errors.New("connection refused")), Unreachable, "connection refused"},
		"clock": {"GET", fails(fmt.Errorf("tls: %w", x509.CertificateInvalidError{Reason: x509.Expired})),
			Certificate, "expired or is not yet valid"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &observing{tc.server, &Troubles{}, answerTime}
				_ = send(t.Context(), o, tc.method, claimURL) // the troubles have it
				request := strings.ToLower(tc.method) + " resourceclaims"
				now := o.troubles.Current()
				switch {
				case tc.want == Well && len(now) > 0:
					t.Errorf("trouble: %v", now)
				case tc.want != Well && (len(now) != 1 || now[0].Reason != tc.want || now[0].Request != request ||
					!strings.Contains(now[0].Message, tc.message)):
					t.Errorf("troubles are %v, want %s %q", now, tc.want, tc.message)
				}
			})
		})
	}
}

// TestRefusable: only that the server finds a request invalid is no trouble.
func TestRefusable(t *testing.T) {
	for code, want := range map[int]int{http.StatusUnprocessableEntity: 0, http.StatusForbidden: 1} {
		o := &observing{status(code), &Troubles{}, answerTime}
		must.NoError(t, send(Refusable(t.Context()), o, "PATCH", claimURL))
		if got := o.troubles.Current(); len(got) != want {
			t.Errorf("%d: troubles are %v, want %d", code, got, want)
		}
	}
}

// TestStreamGoesOn: only the beginning of an answer is waited for.
func TestStreamGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner context.Context
		o := &observing{answering(func(r *http.Request) (*http.Response, error) {
			inner = r.Context()
			return status(200)(r)
		}), &Troubles{}, answerTime}
		r, err := http.NewRequestWithContext(t.Context(), "GET", claimURL, http.NoBody)
		must.NoError(t, err)
		resp, err := o.RoundTrip(r)
		must.NoError(t, err)
		time.Sleep(time.Hour)
		test.NoError(t, inner.Err(), test.Sprint("a stream was cut"))
		resp.Body.Close()
		test.Error(t, inner.Err(), test.Sprint("the context of a stream that is closed stays"))
	})
}

// TestTroublesPass: a success of the same kind ends a trouble; one of another kind does not; what
// was given up by the caller is none; what is long ago says nothing.
func TestTroublesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observing{status(503), &Troubles{}, answerTime}
		expect := func(want string) {
			t.Helper()
			var got []string
			for _, one := range o.troubles.Current() {
				got = append(got, fmt.Sprintf("%s %s %d", one.Request, one.Reason, one.Times))
			}
			test.Eq(t, want, strings.Join(got, ", "), test.Sprintf("troubles are %q", got))
		}
		ask := func(server answering, method, url string) {
			o.next = server
			_ = send(t.Context(), o, method, url) // the troubles have it
		}
		ask(status(503), "GET", claimURL)
		ask(status(429), "GET", claimURL)
		expect("get resourceclaims throttled 2")
		ask(status(200), "GET", "https://api/api/v1/nodes/n")
		ask(fails(errors.New("reset")), "PATCH", claimURL+"/status")
		expect("get resourceclaims throttled 2, patch resourceclaims/status unreachable 1")
		ask(status(200), "GET", claimURL)
		expect("patch resourceclaims/status unreachable 1")
		time.Sleep(pastTime)
		expect("")
		if got := o.troubles.Failures(); len(got) != 3 || got[Failure{"get resourceclaims", ServerError}] != 1 {
			t.Errorf("failures are %v", got)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		o.next = fails(context.Canceled)
		_ = send(gone, o, "GET", claimURL) // given up
		expect("")
	})
	var none *Troubles
	none.Note(context.Background(), "get nodes", Slow, "")
	if none.Current() != nil || none.Failures() != nil {
		t.Error("nobody's troubles are some")
	}
}

// TestRequests: requests have names of a small set.
func TestRequests(t *testing.T) {
	for url, want := range map[string]string{
		"/api/v1/nodes/n":                                          "get nodes",
		"/api/v1/namespaces/default/events":                        "list events",
		"/apis/resource.k8s.io/v1/resourceslices":                  "list resourceslices",
		"/apis/resource.k8s.io/v1/resourceslices?watch=true":       "watch resourceslices",
		"/apis/resource.k8s.io/v1/resourceslices?watch=1":          "watch resourceslices",
		"/apis/resource.k8s.io/v1/resourceslices/s":                "get resourceslices",
		"/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/c/x": "get resourceclaims/x",
		"/version": "get other",
		"/":        "get other",
	} {
		test.Eq(t, want, requestOf(httptest.NewRequest("GET", url, http.NoBody)), test.Sprintf("GET %s", url))
	}
}
