package chart

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

// monitored are values for all that there is for Prometheus and Grafana.
const monitored = "metrics.enabled=true,metrics.serviceMonitor=true,metrics.prometheusRule=true," +
	"metrics.dashboard=true,metrics.readers[0].namespace=monitoring,metrics.readers[0].name=prometheus"

// object returns the only object of a kind.
func object(t *testing.T, kind string, args ...string) map[string]any {
	t.Helper()
	for _, o := range all[*unstructured.Unstructured](t, args...) {
		if o.GetKind() == kind {
			return o.Object
		}
	}
	t.Fatalf("no %s", kind)
	return nil
}

// TestServiceMonitor: with the driver's own certificates, which Prometheus cannot check, and with those of a site
// (testdata/full.golden.yaml), Prometheus sends the token of an account that can read the metrics and nothing else
// (testdata/rights.golden.txt), and never its own: whoever holds the port of a node gets what it sends. The labels of
// pods with devices stay, and those of the driver's own pod do not take their place. A driver cannot set the labels of
// another node's target: prometheus-operator renames them to exported_ without honorLabels.
func TestServiceMonitor(t *testing.T) {
	text, err := yaml.Marshal(object(t, "ServiceMonitor", "--set", monitored))
	must.NoError(t, err)
	golden.File(t, "testdata/servicemonitor.golden.yaml", text)
}

// TestMonitoringFiles: rules and dashboard are in the cluster as they are in the files that
// test/monitoring tests.
func TestMonitoringFiles(t *testing.T) {
	var want, got map[string]any
	must.NoError(t, yaml.Unmarshal([]byte(readFile(t, chartDir+"/monitoring/rules.yaml")), &want))
	got, _, err := unstructured.NestedMap(object(t, "PrometheusRule", "--set", monitored), "spec")
	must.NoError(t, err)
	test.Eq(t, want, got, test.Sprint("rules"))
	for _, m := range all[*corev1.ConfigMap](t, "--set", monitored) {
		if m.Labels["grafana_dashboard"] == "1" {
			if d := diff(strings.TrimSpace(readFile(t, chartDir+"/monitoring/dashboard.json")), strings.TrimSpace(m.Data["dra-driver-rdma.json"])); strings.Count(d, "\n") > 1 {
				t.Errorf("dashboard %s", d)
			}
			return
		}
	}
	t.Error("no ConfigMap has the label of Grafana's sidecar")
}
