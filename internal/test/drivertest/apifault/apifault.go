// Package apifault stands between a driver and an API server and lets requests fail, as
// the network, a busy server or an old one does.
//
//	proxy := apifault.New(t, api.Config())
//	shot := proxy.Arm(apifault.Fault{N: 1, Do: apifault.Status(429)})
//	...
//	request, fired := shot.Fired()
package apifault

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"k8s.io/client-go/rest"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// Fault is what shall go wrong.
type Fault struct {
	// N is which of the matching requests it is, counted from 1 at the time of Arm.
	N int
	// Match says which requests count; nil for all.
	Match func(*http.Request) bool
	// Do answers the request, or changes it and hands it on to the server.
	Do func(w http.ResponseWriter, r *http.Request, server http.Handler)
	// Lasting faults hit all later requests that match as well.
	Lasting bool
}

// Proxy is a server that hands requests on to another one.
type Proxy struct {
	URL    string
	server http.Handler
	front  *httptest.Server

	mu   sync.Mutex
	shot *Shot
}

// New starts a proxy of an API server until the end of the test. It hands on the client's
// credentials, and has none of its own.
func New(t testing.TB, server *rest.Config) *Proxy {
	t.Helper()
	target, err := url.Parse(server.Host)
	must.NoError(t, err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(server))
	must.NoError(t, err)
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.Transport = transport
	reverse.FlushInterval = -1 // a watch is a stream
	reverse.ErrorHandler = func(w http.ResponseWriter, r *http.Request, _ error) {
		Down(w, r, nil) // the client or the server went
	}
	reverse.ErrorLog = log.New(io.Discard, "", 0) // a server may be killed in the middle of an answer
	p := &Proxy{server: reverse}
	front := httptest.NewUnstartedServer(p)
	front.Config.ErrorLog = log.New(io.Discard, "", 0) // clients are killed in the middle
	front.StartTLS()                                   // a client sends no token without TLS
	p.URL, p.front = front.URL, front
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	return p
}

// Cut ends all connections of clients, watches among them.
func (p *Proxy) Cut() { p.front.CloseClientConnections() }

// Config is how to reach the server through the proxy, without a limit of the client's own.
func (p *Proxy) Config() *rest.Config {
	return &rest.Config{Host: p.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// Kubeconfig writes a kubeconfig file for the proxy and returns its path. The client's
// token is read from a file beside it, "token".
func (p *Proxy) Kubeconfig(t testing.TB, firstToken string) string {
	t.Helper()
	dir := drivertest.TempDir(t)
	token := filepath.Join(dir, "token")
	content := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "k", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
"users": [{"name": "u", "user": {"tokenFile": %q}}]}`, p.URL, token)
	path := filepath.Join(dir, "kubeconfig")
	must.NoError(t, errors.Join(os.WriteFile(token, []byte(firstToken), 0o600), os.WriteFile(path, []byte(content), 0o600)))
	return path
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	shot := p.shot
	p.mu.Unlock()
	if shot != nil && shot.hits(r) {
		shot.fault.Do(w, r, p.server)
		return
	}
	p.server.ServeHTTP(w, r)
}

// Shot is an armed fault.
type Shot struct {
	fault Fault
	proxy *Proxy

	mu    sync.Mutex
	seen  []Seen
	fired bool
}

// Seen is a request that matched.
type Seen struct {
	Request string // method and path
	At      time.Time
}

// Arm makes a fault happen, in place of one that was armed before.
func (p *Proxy) Arm(f Fault) *Shot {
	shot := &Shot{fault: f, proxy: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shot = shot
	return shot
}

// Disarm ends the fault.
func (s *Shot) Disarm() {
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	if s.proxy.shot == s {
		s.proxy.shot = nil
	}
}

// Fired returns the first request that was hit, and whether one was.
func (s *Shot) Fired() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fired {
		return "", false
	}
	return s.seen[s.fault.N-1].Request, true
}

// Seen returns the requests that matched so far.
func (s *Shot) Seen() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Seen(nil), s.seen...)
}

func (s *Shot) hits(r *http.Request) bool {
	if s.fault.Match != nil && !s.fault.Match(r) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, Seen{r.Method + " " + r.URL.Path, time.Now()})
	n := len(s.seen)
	hit := n == s.fault.N || s.fault.Lasting && n > s.fault.N
	s.fired = s.fired || hit
	return hit
}
