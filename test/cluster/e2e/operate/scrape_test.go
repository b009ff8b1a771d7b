package operate

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	certutil "k8s.io/client-go/util/cert"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/prometheus"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// scraped are the values for a Prometheus that is told what to do by the chart's ServiceMonitor.
func scraped(tlsSecret string) string {
	return fmt.Sprintf("metrics: {enabled: true, serviceMonitor: true, tlsSecret: %q}\n%s", tlsSecret, testbed.HGXValues)
}

// TestServiceMonitor: Prometheus itself, with what the ServiceMonitor says, reads the driver's metrics by a token that can
// do nothing else. With a certificate of the site it sends the token to nobody else. With the driver's own certificates,
// which the long test has, it cannot tell.
func TestServiceMonitor(t *testing.T) {
	program := prometheus.Program(t, "prometheus")
	definitions := bed.Checkout.Path("test", "cluster", "policies", "testdata", "prometheus-operator", "servicemonitors.yaml")
	bed.Kubectl(t, "create", "--filename="+definitions)
	bed.Kubectl(t, "wait", "--for=condition=Established", "--filename="+definitions,
		"--timeout="+testbed.Patience.String())
	t.Cleanup(func() { bed.Kubectl(t, "delete", "--filename="+definitions) })

	certificate, key, err := certutil.GenerateSelfSignedCertKey(deploy.Release+"."+deploy.Namespace+".svc", nil, nil)
	must.NoError(t, err)
	encoded := base64.StdEncoding.EncodeToString
	secret := fmt.Sprintf(`{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: rdma-tls, namespace: %s},
data: {tls.crt: %s, tls.key: %s, ca.crt: %[2]s}}`, deploy.Namespace, encoded(certificate), encoded(key))
	out, err := bed.KubectlInput(t, secret, "create", "-f", "-")
	must.NoError(t, err, must.Sprintf("create the Secret: %s", out))
	t.Cleanup(func() { bed.Kubectl(t, "--namespace", deploy.Namespace, "delete", "secret", "rdma-tls") })
	bed.Configure(t, scraped("rdma-tls"))
	token := scraperToken(t)
	for _, ask := range []string{"get pods", "list resourceslices", "create events", "get secrets", "get /status"} {
		args := append(testbed.AsToken(token), append([]string{"auth", "can-i"}, strings.Fields(ask)...)...)
		if out, err := bed.Output("kubectl", args...); err == nil {
			t.Errorf("the token may %s: %s", ask, out)
		}
	}
	scrapes(t, program, token, certificate)
	if os.Getenv("TEST_LONG") != "" {
		bed.Configure(t, scraped(""))
		scrapes(t, program, token, nil)
	}
}

// scraperToken waits until the Secret of the ServiceMonitor has its token.
func scraperToken(t *testing.T) (token string) {
	t.Helper()
	name := monitored(t).Authorization.Credentials.Name
	testbed.Eventually(t, "token of the Secret "+name, func() error {
		out, err := bed.Output("kubectl", "--namespace", deploy.Namespace, "get", "secret", name, "-o", "jsonpath={.data.token}")
		if err != nil || out == "" {
			return fmt.Errorf("no token: %w", err)
		}
		decoded, err := base64.StdEncoding.DecodeString(out)
		token = string(decoded)
		return err
	})
	return token
}

// endpoint is what Prometheus needs of an endpoint of a ServiceMonitor.
type endpoint struct {
	Scheme        string
	Authorization struct{ Credentials struct{ Name string } }
	TLSConfig     struct {
		InsecureSkipVerify bool
		ServerName         string
	}
}

func monitored(t *testing.T) endpoint {
	t.Helper()
	var monitor struct {
		Spec struct{ Endpoints []endpoint }
	}
	out := bed.Kubectl(t, "--namespace", deploy.Namespace, "get", "servicemonitor", deploy.Release, "-o", "json")
	if err := json.Unmarshal([]byte(out), &monitor); err != nil || len(monitor.Spec.Endpoints) != 1 {
		t.Fatalf("the ServiceMonitor is %s: %v", out, err)
	}
	return monitor.Spec.Endpoints[0]
}

// scrapes runs Prometheus with the ServiceMonitor's settings until it has scraped the driver. An authority is one that it
// must check. It then has to refuse another server, here the API server, before it sends anything.
func scrapes(t *testing.T, program, token string, authority []byte) {
	t.Helper()
	e, dir := monitored(t), t.TempDir()
	must.Eq(t, (authority == nil), e.TLSConfig.InsecureSkipVerify, must.Sprintf("settings of TLS: %+v", e.TLSConfig))
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	address := bed.Kubectl(t, "--namespace", deploy.Namespace, "get", "endpointslices",
		"--selector=kubernetes.io/service-name="+deploy.Release, "-o", "jsonpath={.items[0].endpoints[0].addresses[0]}:{.items[0].ports[0].port}")
	common := fmt.Sprintf("scheme: %s, authorization: {credentials_file: %s}, tls_config: {insecure_skip_verify: %t",
		e.Scheme, file("token", []byte(token)), e.TLSConfig.InsecureSkipVerify)
	if authority != nil {
		common += fmt.Sprintf(", ca_file: %s, server_name: %s", file("ca.crt", authority), e.TLSConfig.ServerName)
	}
	config := file("prometheus.yml", fmt.Appendf(nil, `global: {scrape_interval: 1s}
scrape_configs:
- {job_name: driver, %s}, static_configs: [{targets: [%q]}]}
- {job_name: impostor, %[1]s}, static_configs: [{targets: ["10.96.0.1:443"]}]}
`, common, address))
	const listen = "127.0.0.1:19090"
	cmd := bed.Command(t.Context(), program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+listen, "--log.level=debug")
	log, err := os.Create(filepath.Join(dir, "log"))
	must.NoError(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	wait, err := bed.Begin(cmd)
	must.NoError(t, err)
	defer func() {
		_ = cmd.Process.Kill()
		_ = wait()
		if t.Failed() {
			lines := strings.Split(testbed.ReadFile(t, log.Name()), "\n")
			t.Log("the last of Prometheus' log:", strings.Join(lines[max(0, len(lines)-10):], "\n"))
		}
	}()
	testbed.Eventually(t, "a scrape of "+address, func() error {
		out, err := bed.Output("promtool", "query", "instant", "http://"+listen, "rdma_driver_build_info and on (instance) up == 1")
		if err == nil && out == "" {
			err = fmt.Errorf("no metrics in Prometheus")
		}
		return err
	})
	if authority == nil {
		return
	}
	testbed.Eventually(t, "refusal of another server", func() error {
		for line := range strings.Lines(testbed.ReadFile(t, log.Name())) {
			if testbed.ContainsAll(line, []string{"scrape_pool=impostor", "x509: "}) {
				return nil
			}
		}
		return fmt.Errorf("no word of its certificate in Prometheus' log")
	})
}
