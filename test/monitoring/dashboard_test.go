package monitoring

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest"
)

// The devices of the fixture machine dgx-h100-ib that the load is on; the first is
// InfiniBand, the second RoCE. Its mlx5_8 has no cable.
const (
	ib, roce = "pci-0000-18-00-0", "pci-0000-29-00-0"
	ibdev    = "mlx5_0"
)

// load is a node on which things happen.
type load struct {
	*drivertest.Node
	t      *testing.T
	long   *resourceapi.ResourceClaim // stays
	rounds int
}

func newLoad(t *testing.T, n *drivertest.Node) *load {
	l := &load{Node: n, t: t, long: drivertest.Claim(1, ib)}
	n.AddClaim(l.long)
	n.AddPod("trainer-0", l.long)
	l.prepare(l.long)
	l.addContainer()
	return l
}

func (l *load) prepare(c *resourceapi.ResourceClaim) error {
	l.t.Helper()
	response, err := l.Prepare(drivertest.Context(l.t), c)
	if err == nil {
		_, err = drivertest.Devices(response, c)
	}
	return err
}

// addContainer has a container of the pod hold verbs objects, with limits.
func (l *load) addContainer() {
	l.t.Helper()
	root := filepath.Join(l.Root, "sys/fs/cgroup")
	dir := filepath.Join(root, "kubepods/pod0f1e2d3c-0000-4000-8000-00000000000a", strings.Repeat("1a", 32))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		l.t.Fatal(err)
	}
	for name, text := range map[string]string{
		root + "/cgroup.controllers": "cpu rdma\n", dir + "/rdma.current": ibdev + " hca_handle=1 hca_object=90\n",
		dir + "/rdma.max": ibdev + " hca_handle=8 hca_object=100\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			l.t.Fatal(err)
		}
	}
}

// round lets a second's worth of things happen: traffic, a claim that comes and goes, one
// that fails, a publication, trouble with the API server.
func (l *load) round() {
	l.t.Helper()
	l.rounds++
	for i, name := range []string{"counters/port_rcv_data", "counters/port_xmit_data", "hw_counters/out_of_sequence"} {
		path := filepath.Join(l.Root, "sys/class/infiniband", ibdev, "ports/1", name)
		if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", 1_000_000_000_000+l.rounds*1_000_000*(i+1)), 0o644); err != nil {
			l.t.Fatal(err)
		}
	}
	short := drivertest.Claim(1+l.rounds, roce)
	l.AddClaim(short)
	if err := l.prepare(short); err != nil {
		l.t.Fatal(err)
	}
	taken := drivertest.Claim(10000+l.rounds, ib)
	l.AddClaim(taken)
	if l.prepare(taken) == nil {
		l.t.Fatal("two claims have one device")
	}
	if _, err := l.Unprepare(drivertest.Context(l.t), short); err != nil {
		l.t.Fatal(err)
	}
	l.Fail(drivertest.GetClaim, http.StatusServiceUnavailable)
	if l.prepare(short) == nil {
		l.t.Fatal("a claim is prepared that could not be read")
	}
	l.Fail(drivertest.GetClaim, 0)
	l.Restart()
}

// variables are the dashboard's, and Grafana's, as a user would set them.
var variables = strings.NewReplacer("$instance", ".*", "$device", ".*", "$__rate_interval", "30s")

// found returns all values of a key in a JSON document.
func found(node any, key string) []string {
	var out []string
	switch node := node.(type) {
	case map[string]any:
		for k, v := range node {
			if s, ok := v.(string); ok && k == key {
				out = append(out, s)
			}
			out = append(out, found(v, key)...)
		}
	case []any:
		for _, v := range node {
			out = append(out, found(v, key)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var labelValues = regexp.MustCompile(`^label_values\((.*), *(\w+)\)$`)

// TestDashboard: each query of the dashboard, and each recording rule, returns data from a
// driver at work.
func TestDashboard(t *testing.T) {
	program(t, "prometheus")
	n := drivertest.NewNode(t, "dgx-h100-ib")
	address := freeAddress(t)
	n.Start(t, "", "--metrics-bind-address", address)
	p, l := startPrometheus(t, address), newLoad(t, n)
	var board any
	if err := json.Unmarshal([]byte(readFile(t, dashboard)), &board); err != nil {
		t.Fatal(err)
	}
	left := found(board, "expr")
	if len(left) < 30 {
		t.Fatalf("the dashboard has %d queries", len(left))
	}
	t.Logf("%d queries", len(left))
	for _, group := range rules(t).Groups {
		for _, r := range group.Rules {
			if r.Record != "" {
				left = append(left, r.Record)
			}
		}
	}
	scrapes := 0
	drivertest.Eventually(t, func() error {
		last := scrapes
		if scrapes = p.scrapes(); scrapes == last {
			return fmt.Errorf("%d scrapes, and %d queries without data:\n%s", scrapes, len(left), strings.Join(left, "\n"))
		}
		l.round()
		var err error
		left = slices.DeleteFunc(left, func(expr string) bool {
			n, asked := p.data(variables.Replace(expr))
			if asked != nil {
				err = asked
			}
			return len(n) > 0
		})
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("no data for:\n%s", strings.Join(left, "\n"))
		}
		return err
	})
	checkScrape(t, address)
	checkVariables(t, p, board)
	checkRules(t, p)
	checkMeaning(t, p)
}

// checkScrape has promtool judge names and units of what the driver serves.
func checkScrape(t *testing.T, address string) {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, string(text), "check", "metrics")
}

// checkVariables runs the queries of the dashboard's variables.
func checkVariables(t *testing.T, p *prometheus, board any) {
	t.Helper()
	queries := slices.DeleteFunc(found(board, "query"), func(q string) bool { return !strings.HasPrefix(q, "label_values") })
	if len(queries) != 2 {
		t.Errorf("variables have the queries %v", queries)
	}
	for _, q := range queries {
		m := labelValues.FindStringSubmatch(variables.Replace(q))
		if m == nil {
			t.Fatalf("query %q is not understood", q)
		}
		var values []string
		if err := p.get("/api/v1/label/"+m[2]+"/values", url.Values{"match[]": {m[1]}}, &values); err != nil || len(values) == 0 {
			t.Errorf("%s: values %v, %v", q, values, err)
		}
	}
}

// checkRules has Prometheus say that it could evaluate each rule.
func checkRules(t *testing.T, p *prometheus) {
	t.Helper()
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.get("/api/v1/rules", nil, &answer); err != nil {
		t.Fatal(err)
	}
	for _, g := range answer.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
}

// checkMeaning asks for what must be true of this node.
func checkMeaning(t *testing.T, p *prometheus) {
	t.Helper()
	for _, expr := range []string{
		`rdma_port_received_bytes_total{device="` + ib + `",namespace="team-a",claim="claim-1",pod="trainer-0"}`,
		`rdma_device_healthy{ibdev="mlx5_8"} == 0`,
		`rdma_device_taint{ibdev="mlx5_8",key="rdma.dev/port-down"}`,
		`rdma_driver_claim_errors_total{operation="prepare",reason="in_use"} > 0`,
		`rdma_driver_claim_errors_total{operation="prepare",reason="api"} > 0`,
		`rdma_container_objects{pod="trainer-0"} / rdma_container_objects_limit == 0.9`,
		`rdma_driver_published_devices{kind="exclusive"} == 12`,
		// Four octets to a word.
		`sum(rdma_port_received_bytes_total{ibdev="mlx5_0"}) == 4 * sum(rdma_port_statistic_total{ibdev="mlx5_0",counter="port_rcv_data"})`,
		// In the documentation.
		`rate(rdma_port_received_bytes_total[5m]) * on (instance, device) group_right () rdma_device_allocation_info`,
	} {
		if n, err := p.data(expr); err != nil || len(n) == 0 {
			t.Errorf("no data for %s: %v", expr, err)
		}
	}
}
