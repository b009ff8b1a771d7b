package webserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	certutil "k8s.io/client-go/util/cert"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/webserver"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	must.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must.NoError(t, err)
	return port
}

// start runs a server until the test ends or the function that it returns is called.
func start(t *testing.T, s *webserver.Server) (stop func()) {
	t.Helper()
	must.NoError(t, s.Validate())
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { s.Run(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

// says answers every request with a text.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
}

// client connects anew for each request, to whatever certificate.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

// get returns status and body.
func get(t *testing.T, url, token string) string {
	t.Helper()
	answer, err := try(http.MethodGet, url, token)
	must.NoError(t, err)
	return answer
}

func try(method, url, token string) (string, error) {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body))), err
}

func eventually(t *testing.T, url, token, want string) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		got, err := try(http.MethodGet, url, token)
		if err == nil && got != want {
			err = fmt.Errorf("%s answers %q, want %q", url, got, want)
		}
		return err
	})
}

// TestLoopback: on the node itself everyone may read.
func TestLoopback(t *testing.T) {
	address := "127.0.0.1:" + freePort(t)
	start(t, &webserver.Server{Address: address, Handler: says("hello")})
	eventually(t, "http://"+address+"/metrics", "", "200 hello")
}

// TestGuard: beyond the node nothing is answered but to whom the API server lets.
func TestGuard(t *testing.T) {
	api := drivertest.NewAPI(t)
	api.AddUser("prometheus", "good", "/metrics")
	api.AddUser("someone", "poor")
	port := freePort(t)
	start(t, &webserver.Server{Address: ":" + port, Client: api.Client(t), Handler: says("hello")})
	url := "https://127.0.0.1:" + port
	eventually(t, url+"/metrics", "good", "200 hello")
	for _, tc := range []struct{ path, token, want string }{
		{"/metrics", "", "401 a bearer token"},
		{"/metrics", "unknown", "401 the cluster does not know"},
		{"/metrics", strings.Repeat("x", 9000), "401 a bearer token"},
		{"/metrics", "poor", "403 someone may not get /metrics"},
		{"/other", "good", "403 prometheus may not get /other"},
		{"/metrics", "good", "200 hello"},
	} {
		test.StrHasPrefix(t, tc.want, get(t, url+tc.path, tc.token),
			test.Sprintf("%s with token %.10s", tc.path, tc.token))
	}
	if got, err := try(http.MethodPost, url+"/metrics", "good"); err != nil || !strings.HasPrefix(got, "405") {
		t.Errorf("POST: %q, %v", got, err)
	}
	if _, err := try(http.MethodGet, "http://127.0.0.1:"+port+"/metrics", "good"); err == nil {
		t.Log("plain HTTP is answered by net/http itself, and by no handler")
	}
	// Answers are kept, of whatever kind: four tokens and paths that had to be asked for.
	before := api.Count(drivertest.ReviewToken)
	for range 3 {
		get(t, url+"/metrics", "good")
		get(t, url+"/metrics", "unknown")
	}
	if asked := api.Count(drivertest.ReviewToken); asked != before || asked != 4 {
		t.Errorf("the API server was asked %d times, and %d before: want 4 and none more", asked, before)
	}
}

// TestGuardWithoutAPI: who cannot be asked for is not let in, and it is not kept.
func TestGuardWithoutAPI(t *testing.T) {
	api := drivertest.NewAPI(t)
	api.AddUser("prometheus", "good", "/metrics")
	api.Fail(drivertest.ReviewToken, http.StatusForbidden)
	port := freePort(t)
	start(t, &webserver.Server{Address: ":" + port, Client: api.Client(t), Handler: says("hello")})
	url := "https://127.0.0.1:" + port + "/metrics"
	eventually(t, url, "good", "503 the API server does not say whether this may be read")
	api.Fail(drivertest.ReviewToken, 0)
	test.Eq(t, "200 hello", get(t, url, "good"), test.Sprint("after the trouble"))
}

// TestGuardLimit: of one address two requests wait for the API server, and the others are refused meanwhile.
func TestGuardLimit(t *testing.T) {
	api := drivertest.NewAPI(t)
	port := freePort(t)
	start(t, &webserver.Server{Address: ":" + port, Client: api.Client(t), Handler: says("hello")})
	url := "https://127.0.0.1:" + port + "/metrics"
	drivertest.Eventually(t, func() error { _, err := try(http.MethodGet, url, ""); return err })
	release := api.Hold(drivertest.ReviewToken)
	answers := make(chan string)
	for i := range 20 {
		go func() {
			answer, err := try(http.MethodGet, url, fmt.Sprint("random", i))
			answers <- fmt.Sprint(answer, err)
		}()
	}
	for range 18 {
		test.StrHasPrefix(t, "429 too many requests", <-answers, test.Sprint("while the API server is asked"))
	}
	release()
	for range 2 {
		if answer := <-answers; strings.HasPrefix(answer, "429") {
			t.Errorf("of those that were asked for: %s", answer)
		}
	}
}

// TestHandOver: the second server has the address when the first lets it go.
func TestHandOver(t *testing.T) {
	address := "127.0.0.1:" + freePort(t)
	stop := start(t, &webserver.Server{Address: address, Handler: says("old")})
	eventually(t, "http://"+address, "", "200 old")
	start(t, &webserver.Server{Address: address, Handler: says("new")})
	for range 3 {
		test.Eq(t, "200 old", get(t, "http://"+address, ""), test.Sprint("while the old one serves"))
	}
	stop()
	eventually(t, "http://"+address, "", "200 new")
}

// TestCertificate: a certificate that was renewed is used at once.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	s := &webserver.Server{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
		Handler: says("hello")}
	write := func(host string) {
		cert, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
		must.NoError(t, err)
		for name, data := range map[string][]byte{s.CertFile: cert, s.KeyFile: key} {
			must.NoError(t, os.WriteFile(name, data, 0o600))
		}
	}
	write("first.example.com")
	s.Address = ":" + freePort(t)
	s.Client = drivertest.NewAPI(t).Client(t)
	start(t, s)
	serves := func(host string) {
		t.Helper()
		drivertest.Eventually(t, func() error {
			conn, err := tls.Dial("tcp", "127.0.0.1"+s.Address, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return err
			}
			defer conn.Close()
			return conn.ConnectionState().PeerCertificates[0].VerifyHostname(host)
		})
	}
	serves("first.example.com")
	write("second.example.com")
	serves("second.example.com")
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		server webserver.Server
		want   string
	}{
		{webserver.Server{Address: "9485"}, "want host:port"},
		{webserver.Server{Address: "::1:9485"}, "want host:port"},
		{webserver.Server{Address: ":9485", CertFile: "a"}, "both files or none"},
		{webserver.Server{Address: "[::1]:9485"}, ""},
	} {
		err := tc.server.Validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want %q", tc.server, err, tc.want)
		}
	}
}
