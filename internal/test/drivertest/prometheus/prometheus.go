// Package prometheus runs Prometheus itself, the Debian package prometheus, for tests: a
// server that scrapes one driver with the rules of the chart, and what the chart's
// dashboard asks of it.
//
// A test starts a [Server], lets things happen, and waits until [Server.Unanswered] leaves
// none of the [Dashboard]'s queries.
package prometheus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// Program finds one of the package's programs: prometheus or promtool.
func Program(t testing.TB, name string) string {
	t.Helper()
	needs.Proof(t, "it runs Prometheus")
	return needs.Program(t, name, "install the package prometheus (hack/install-packages.sh)")
}

// FreeAddress returns an address that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Config says what a server does.
type Config struct {
	Program  string        // the path of prometheus
	Target   string        // the address that it scrapes, without TLS
	Rules    string        // a file of rules
	Interval time.Duration // of scrapes and of rules
}

// Server is a running Prometheus.
type Server struct{ url string }

// Start starts a server that runs until the test ends.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	dir, address := t.TempDir(), FreeAddress(t)
	rules, err := filepath.Abs(c.Rules)
	must.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`global: {scrape_interval: %s, evaluation_interval: %[1]s}
rule_files: [%q]
scrape_configs:
  - {job_name: rdma, static_configs: [{targets: [%q]}]}
`, c.Interval, rules, c.Target)
	must.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	cmd := exec.Command(c.Program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", &said)
		}
	})
	return &Server{"http://" + address}
}

// Get asks an API of Prometheus.
func (s *Server) Get(path string, query url.Values, into any) error {
	resp, err := http.Get(s.url + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// Data returns the numbers that an expression has now.
func (s *Server) Data(expr string) ([]float64, error) {
	var answer struct {
		Result []struct{ Value [2]any }
	}
	if err := s.Get("/api/v1/query", url.Values{"query": {expr}}, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	var out []float64
	for _, r := range answer.Result {
		text, _ := r.Value[1].(string)
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) {
			out = append(out, f)
		}
	}
	return out, nil
}

// Scrapes returns how often the driver was scraped, or that it was tried.
func (s *Server) Scrapes() int {
	n, err := s.Data(`count_over_time(up{job="rdma"}[1h])`)
	if err != nil || len(n) == 0 {
		return 0 // not yet
	}
	return int(n[0])
}
