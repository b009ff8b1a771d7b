package webserver_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	certutil "k8s.io/client-go/util/cert"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/webserver"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// answerFor returns the status of a request to a host at an address, and its answer.
func answerFor(t *testing.T, url, host, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	must.NoError(t, err)
	req.Host = host
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client().Do(req)
	must.NoError(t, err)
	defer resp.Body.Close()
	var body [1000]byte
	n, _ := resp.Body.Read(body[:])
	return resp.StatusCode, string(body[:n])
}

// TestOwnHosts: a page of somebody else whose name is made to resolve to the node gets nothing. People, probes and
// Prometheus do, by the addresses and names that are the node's own.
func TestOwnHosts(t *testing.T) {
	port := freePort(t)
	address := "127.0.0.1:" + port
	start(t, &webserver.Server{Address: address, Names: []string{"node-7"}, Handler: says("hello")})
	url := "http://" + address + "/status"
	eventually(t, url, "", "200 hello")
	for host, want := range map[string]int{
		address: 200, "127.0.0.1": 200, "localhost:" + port: 200, "LOCALHOST": 200, "localhost.:1": 200, "[::1]:" + port: 200,
		"[::1]": 200, "10.0.0.7:9485": 200, "[fd00::7]": 200, "node-7:9485": 200, "Node-7": 200,
		"evil.example": 421, "evil.example:" + port: 421, "127.0.0.1.evil.example": 421, "localhost.evil.example:80": 421,
		"node-7.evil.example": 421, "2130706433": 421, "127.1": 421, "evil.example:80:80": 421, "node-70": 421,
	} {
		status, answer := answerFor(t, url, host, "")
		if status != want || want == 421 && !strings.Contains(answer, "does not answer for the host") {
			t.Errorf("host %q: %d %q, want %d", host, status, answer, want)
		}
	}
}

// TestOwnHostsByCertificate: with TLS, the names of the server's own certificate count too. The API server is not asked
// for a request to another host.
func TestOwnHostsByCertificate(t *testing.T) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("metrics.site.example", nil, nil)
	must.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, data := range map[string][]byte{certFile: cert, keyFile: key} {
		must.NoError(t, os.WriteFile(file, data, 0o600))
	}
	api := drivertest.NewAPI(t)
	api.AddUser("prometheus", "good", "/metrics")
	port := freePort(t)
	start(t, &webserver.Server{Address: ":" + port, CertFile: certFile, KeyFile: keyFile, Client: api.Client(t),
		Handler: says("hello")})
	url := fmt.Sprintf("https://127.0.0.1:%s/metrics", port)
	eventually(t, url, "good", "200 hello")
	asked := api.Count(drivertest.ReviewToken)
	for host, want := range map[string]int{"metrics.site.example:9485": 200, "other.site.example": 421, "10.0.0.7": 200} {
		if status, answer := answerFor(t, url, host, "good"); status != want {
			t.Errorf("host %q: %d %q, want %d", host, status, answer, want)
		}
	}
	answerFor(t, url, "evil.example", "unknown")
	test.Eq(t, asked, api.Count(drivertest.ReviewToken), test.Sprint("the API server was asked"))
}
