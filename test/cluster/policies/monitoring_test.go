package policies

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

// operated are values of the chart with which it has all there is for the Prometheus
// operator, and those that change its objects.
var operated = [][]string{
	{"metrics.monitorLabels.release=kube-prometheus-stack"},
	{"metrics.tlsSecret=rdma-tls"},
}

// An API server with the definitions of the Prometheus operator
// takes ServiceMonitor and PrometheusRule of the chart, and knows each field of them.
func (s *server) prometheusOperator(t *testing.T) {
	for _, args := range [][]string{
		{"create", "--filename=testdata/prometheus-operator"},
		{"wait", "--for=condition=Established", "--timeout=1m", "--filename=testdata/prometheus-operator"},
	} {
		out, err := s.run(t, "", args...)
		must.NoError(t, err, must.Sprintf("kubectl %s: %s", strings.Join(args, " "), out))
	}
	for _, values := range operated {
		objects := monitoring(t, values...)
		out, err := s.run(t, objects, "create", "--dry-run=server", "--validate=strict", "-f", "-")
		for _, kind := range []string{"servicemonitor", "prometheusrule"} {
			if err != nil || !strings.Contains(out, kind+".monitoring.coreos.com/"+deploy.Release+" created") {
				t.Errorf("%v: the %s is refused: %v: %s", values, kind, err, out)
			}
		}
		// A field that nobody knows is what this test is for.
		for field, wrong := range map[string]string{"endpoints:": "endpionts:", "for: 5m": "for: soon"} {
			if out, err := s.run(t, strings.Replace(objects, field, wrong, 1), "create", "--dry-run=server", "--validate=strict", "-f", "-"); err == nil {
				t.Errorf("%s is taken for %s: %s", wrong, field, out)
			}
		}
	}
}

// monitoring renders what the chart has for the Prometheus operator.
func monitoring(t *testing.T, values ...string) string {
	t.Helper()
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	args := []string{"template", deploy.Release, checkout.Chart(), "--namespace", deploy.Namespace, "--show-only", "templates/monitoring.yaml"}
	for _, v := range append([]string{"metrics.enabled=true", "metrics.serviceMonitor=true", "metrics.prometheusRule=true"}, values...) {
		args = append(args, "--set", v)
	}
	out, err := exec.CommandContext(t.Context(), "helm", args...).Output()
	must.NoError(t, err, must.Sprint("helm template"))
	return string(out)
}
