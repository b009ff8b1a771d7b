package chart

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// monitored installs all that there is for Prometheus and Grafana.
var monitored = []string{
	"--set", "metrics.enabled=true", "--set", "metrics.serviceMonitor=true", "--set", "metrics.prometheusRule=true", "--set", "metrics.dashboard=true",
	"--set", "metrics.readers[0].namespace=monitoring", "--set", "metrics.readers[0].name=prometheus",
}

// TestMetricsOff: by default nothing is served, and no right is needed for it.
func TestMetricsOff(t *testing.T) {
	test.False(t, slices.ContainsFunc(driver(t, daemonSet(t)).Args, func(arg string) bool { return strings.Contains(arg, "metrics") }),
		test.Sprint("metrics are served by default"))
	if got := all[*corev1.Service](t); len(got) != 0 {
		t.Errorf("services by default: %v", got)
	}
}

// TestMetricsPort: the address must reach the driver. The chart must not declare the port as a port of the pod: it
// would be a host port, and a node has each host port only once.
func TestMetricsPort(t *testing.T) {
	c := driver(t, daemonSet(t, monitored...))
	if !slices.Contains(c.Args, "--metrics-bind-address=:9485") || len(c.Ports) != 0 {
		t.Errorf("arguments %q, ports %v", c.Args, c.Ports)
	}
	if port := one[*corev1.Service](t, monitored...).Spec.Ports[0]; port.Port != 9485 || port.TargetPort.IntValue() != 9485 {
		t.Errorf("port of the service: %v", port)
	}
}

// TestMetricsTLS: a certificate of the site is mounted as a directory, so that a renewed
// one reaches the driver, and is checked by Prometheus.
func TestMetricsTLS(t *testing.T) {
	args := append(slices.Clone(monitored), "--set", "metrics.tlsSecret=rdma-tls")
	c := driver(t, daemonSet(t, args...))
	if !slices.Contains(c.Args, "--metrics-tls-cert-file=/etc/rdma.dev-tls/tls.crt") || !slices.Contains(c.Args, "--metrics-tls-key-file=/etc/rdma.dev-tls/tls.key") {
		t.Errorf("arguments %q", c.Args)
	}
	i := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/rdma.dev-tls" })
	if i < 0 || !c.VolumeMounts[i].ReadOnly || c.VolumeMounts[i].SubPath != "" {
		t.Errorf("mounts %v", c.VolumeMounts)
	}
	want := map[string]any{
		"ca":         map[string]any{"secret": map[string]any{"name": "rdma-tls", "key": "ca.crt"}},
		"serverName": fullname + "." + namespace + ".svc",
	}
	if d := cmp.Diff(want, endpoint(t, args...)["tlsConfig"]); d != "" {
		t.Errorf("Prometheus has to check the certificate of the site (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]any{"insecureSkipVerify": true}, endpoint(t, monitored...)["tlsConfig"]); d != "" {
		t.Errorf("Prometheus cannot check the driver's own certificate (-want +got):\n%s", d)
	}
}

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

// endpoint returns the endpoint of the ServiceMonitor.
func endpoint(t *testing.T, args ...string) map[string]any {
	t.Helper()
	list, _, err := unstructured.NestedSlice(object(t, "ServiceMonitor", args...), "spec", "endpoints")
	if err != nil || len(list) != 1 {
		t.Fatalf("endpoints %v, %v", list, err)
	}
	return list[0].(map[string]any)
}

// TestServiceMonitor: the labels of pods with devices stay, and those of the driver's own pod do not take their place. A
// driver cannot set the labels of another node's target: prometheus-operator renames them to exported_ without honorLabels.
func TestServiceMonitor(t *testing.T) {
	e := endpoint(t, monitored...)
	if e["honorLabels"] != nil || e["scheme"] != "https" {
		t.Errorf("endpoint %v", e)
	}
	text, err := json.Marshal(e["relabelings"])
	if err != nil || !strings.Contains(string(text), `{"action":"labeldrop","regex":"namespace|pod|container|endpoint|service"}`) {
		t.Errorf("relabelings %s, %v", text, err)
	}
}

// TestScraperToken: Prometheus never sends its own token, because whoever holds the port of a node gets what it sends.
// The token is of a service account that can read the metrics and nothing else.
func TestScraperToken(t *testing.T) {
	const account = fullname + "-scraper"
	for _, args := range [][]string{monitored, append(slices.Clone(monitored), "--set", "metrics.tlsSecret=rdma-tls")} {
		e := endpoint(t, args...)
		want := map[string]any{"credentials": map[string]any{"name": account, "key": "token"}}
		if d := cmp.Diff(want, e["authorization"]); d != "" || e["bearerTokenFile"] != nil || e["bearerTokenSecret"] != nil {
			t.Errorf("endpoint %v\n%s", e, d)
		}
	}
	secret := one[*corev1.Secret](t, monitored...)
	if secret.Name != account || secret.Type != corev1.SecretTypeServiceAccountToken || secret.Annotations[corev1.ServiceAccountNameKey] != account {
		t.Errorf("secret %v", secret)
	}
	// What each role says to the account, by name or by a group.
	given := map[string][]rbacv1.PolicyRule{}
	for _, b := range all[*rbacv1.ClusterRoleBinding](t, monitored...) {
		if b.Subjects[0].Name == account && b.Subjects[0].Namespace == namespace {
			given[b.RoleRef.Name] = nil
		}
	}
	for _, role := range all[*rbacv1.ClusterRole](t, monitored...) {
		if _, ok := given[role.Name]; ok {
			given[role.Name] = role.Rules
		}
	}
	want := map[string][]rbacv1.PolicyRule{account: {{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	test.Eq(t, want, given, test.Sprint("rights of the token"))
	if got := all[*corev1.Secret](t, "--set", "metrics.enabled=true"); len(got) != 0 {
		t.Errorf("secrets without a ServiceMonitor: %v", got)
	}
}

// TestMonitoringFiles: rules and dashboard are in the cluster as they are in the files that
// test/monitoring tests.
func TestMonitoringFiles(t *testing.T) {
	var want, got map[string]any
	must.NoError(t, yaml.Unmarshal([]byte(readFile(t, chartDir+"/monitoring/rules.yaml")), &want))
	got, _, err := unstructured.NestedMap(object(t, "PrometheusRule", monitored...), "spec")
	must.NoError(t, err)
	test.Eq(t, want, got, test.Sprint("rules"))
	for _, m := range all[*corev1.ConfigMap](t, monitored...) {
		if m.Labels["grafana_dashboard"] == "1" {
			if d := diff(strings.TrimSpace(readFile(t, chartDir+"/monitoring/dashboard.json")), strings.TrimSpace(m.Data["dra-driver-rdma.json"])); strings.Count(d, "\n") > 1 {
				t.Errorf("dashboard %s", d)
			}
			return
		}
	}
	t.Error("no ConfigMap has the label of Grafana's sidecar")
}

// TestMetricsRights: the driver may ask who someone is and may what, and readers may get
// two URLs.
func TestMetricsRights(t *testing.T) {
	rights := map[string][]rbacv1.PolicyRule{}
	for _, role := range all[*rbacv1.ClusterRole](t, monitored...) {
		rights[role.Name] = role.Rules
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
	test.Eq(t, want, rights[fullname+"-reviews"], test.Sprint("rights of the driver"))
	want = []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics", "/status"}, Verbs: []string{"get"}}}
	test.Eq(t, want, rights[fullname+"-metrics"], test.Sprint("rights of readers"))
	account := daemonSet(t).Spec.Template.Spec.ServiceAccountName
	subjects := map[string]rbacv1.Subject{
		fullname + "-reviews": {Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace},
		fullname + "-metrics": {Kind: rbacv1.ServiceAccountKind, Name: "prometheus", Namespace: "monitoring"},
	}
	for _, b := range all[*rbacv1.ClusterRoleBinding](t, monitored...) {
		if s, ok := subjects[b.Name]; ok {
			delete(subjects, b.Name)
			if b.RoleRef.Name != b.Name || len(b.Subjects) != 1 || b.Subjects[0] != s {
				t.Errorf("binding %s is of %s to %v", b.Name, b.RoleRef.Name, b.Subjects)
			}
		}
	}
	test.Eq(t, 0, len(subjects), test.Sprintf("nobody has %v", subjects))
	for _, b := range all[*rbacv1.ClusterRole](t, "--set", "metrics.enabled=true") {
		test.NotEq(t, fullname+"-metrics", b.Name, test.Sprint("without readers there is a role for them"))
	}
}
