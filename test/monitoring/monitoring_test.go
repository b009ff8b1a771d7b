// Package monitoring tests what the chart has for Prometheus and Grafana with Prometheus
// itself, the Debian package prometheus: alerts by promtool, and each query of the dashboard
// against a Prometheus that scrapes a driver with claims coming and going.
package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/prometheus"
)

const (
	chart     = "../../deployments/helm/dra-driver-rdma/monitoring/"
	rulesFile = chart + "rules.yaml"
	unitTests = "testdata/rules_test.yaml"
	dashboard = chart + "dashboard.json"
	doc       = "../../docs/metrics.md"
	alertsDoc = "../../docs/reference/alerts.md"
	listDoc   = "../../docs/reference/metrics.md"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := drivertest.RemoveBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// promtool runs promtool.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command(prometheus.Program(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	test.NoError(t, err, test.Sprintf("promtool %s\n%s", strings.Join(args, " "), out))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	return string(data)
}
