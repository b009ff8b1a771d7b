// Package monitoring tests what the chart has for Prometheus and Grafana with Prometheus
// itself, the Debian package prometheus: alerts by promtool, and each query of the dashboard
// against a Prometheus that scrapes a driver with claims coming and going.
package monitoring

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
	"strings"
	"syscall"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest"
)

const (
	chart     = "../../deployments/helm/dra-driver-rdma/monitoring/"
	rulesFile = chart + "rules.yaml"
	unitTests = "testdata/rules_test.yaml"
	dashboard = chart + "dashboard.json"
	doc       = "../../docs/metrics.md"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := drivertest.RemoveBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// program finds one of the package's programs.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		say := t.Skipf
		if os.Getenv("CI") != "" {
			say = t.Fatalf
		}
		say("no %s: install the package prometheus (hack/install-packages.sh)", name)
	}
	return path
}

// promtool runs promtool.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command(program(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// prometheus is a running one.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus starts one that scrapes an address each second, with the chart's rules.
func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	dir, address := t.TempDir(), freeAddress(t)
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - {job_name: rdma, honor_labels: true, static_configs: [{targets: [%q]}]}
`, rules, target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", &said)
		}
	})
	return &prometheus{t, "http://" + address}
}

// get asks an API of Prometheus.
func (p *prometheus) get(path string, query url.Values, into any) error {
	resp, err := http.Get(p.url + path + "?" + query.Encode())
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

// data returns the numbers that an expression has.
func (p *prometheus) data(expr string) ([]float64, error) {
	var answer struct {
		Result []struct{ Value [2]any }
	}
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &answer); err != nil {
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

// scrapes returns how often the driver was scraped.
func (p *prometheus) scrapes() int {
	n, err := p.data(`count_over_time(up{job="rdma"}[1h])`)
	if err != nil || len(n) == 0 {
		return 0 // not yet
	}
	return int(n[0])
}
