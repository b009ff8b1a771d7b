package webserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/webserver"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// from is a client with an address of its own, which keeps its connections.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// status is the answer to a request with a token.
func status(ctx context.Context, client *http.Client, url, token string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// flood sends tokens that nobody knows, as fast as it can, until the test ends. It returns once the server has refused
// one for their number.
func flood(t *testing.T, client *http.Client, url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var refused atomic.Bool
	var flooding sync.WaitGroup
	for i := range 8 {
		flooding.Go(func() {
			for j := 0; ctx.Err() == nil; j++ {
				code, _ := status(ctx, client, url, fmt.Sprintf("junk-%d-%d", i, j))
				if code == http.StatusTooManyRequests {
					refused.Store(true)
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); flooding.Wait() })
	drivertest.Eventually(t, func() error {
		if !refused.Load() {
			return fmt.Errorf("the server asks for every token")
		}
		return nil
	})
}

// TestJunkTokens: a flood of tokens that nobody knows does not keep the server from asking for those of a scraper at
// another address, which it does not know yet either.
func TestJunkTokens(t *testing.T) {
	api := drivertest.NewAPI(t)
	port := freePort(t)
	start(t, &webserver.Server{Address: ":" + port, Client: api.Client(t), Handler: says("hello")})
	url := "https://127.0.0.1:" + port + "/metrics"
	drivertest.Eventually(t, func() error { _, err := try(http.MethodGet, url, ""); return err })
	flood(t, from(t, "127.0.0.2"), url)
	scraper := from(t, "127.0.0.3")
	for i := range 5 { // each with a new token, as the kubelet renews them
		token := fmt.Sprintf("good-%d", i)
		api.AddUser("prometheus", token, "/metrics")
		if code, err := status(t.Context(), scraper, url, token); err != nil || code != http.StatusOK {
			t.Errorf("scrape %d is answered with %d, %v", i, code, err)
		}
	}
}

// TestManyConnections: who opens connections without end loses the first of them. Others connect meanwhile, and a
// scraper keeps its own.
func TestManyConnections(t *testing.T) {
	api := drivertest.NewAPI(t)
	api.AddUser("prometheus", "good", "/metrics")
	port := freePort(t)
	var mu sync.Mutex
	ports := map[string]bool{}
	start(t, &webserver.Server{Address: ":" + port, Client: api.Client(t),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			ports[r.RemoteAddr] = true
		})})
	url := "https://127.0.0.1:" + port + "/metrics"
	drivertest.Eventually(t, func() error { _, err := try(http.MethodGet, url, ""); return err })
	scrape := func(client *http.Client) {
		t.Helper()
		if code, err := status(t.Context(), client, url, "good"); err != nil || code != http.StatusOK {
			t.Fatalf("a scrape is answered with %d, %v", code, err)
		}
	}
	scraper := from(t, "127.0.0.3")
	scrape(scraper)
	var held []*tls.Conn
	for range 100 {
		held = append(held, hold(t, "127.0.0.2", port))
	}
	for i, conn := range held[:30] {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d of 100 that read nothing is still open: %v", i, err)
		}
	}
	scrape(from(t, "127.0.0.4"))
	scrape(scraper)
	test.Eq(t, 2, len(ports), test.Sprintf("the scrapers had the connections %v, want one each", ports))
}

// hold opens a connection, has a request without a token answered on it, and keeps it.
func hold(t *testing.T, address, port string) *tls.Conn {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := tls.DialWithDialer(dialer, "tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true})
	must.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%+v, %v", resp, err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return conn
}
