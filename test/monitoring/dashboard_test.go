package monitoring

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/prometheus"
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
	must.NoError(l.t, os.MkdirAll(dir, 0o755))
	for name, text := range map[string]string{
		root + "/cgroup.controllers": "cpu rdma\n", dir + "/rdma.current": ibdev + " hca_handle=1 hca_object=90\n",
		dir + "/rdma.max": ibdev + " hca_handle=8 hca_object=100\n",
	} {
		must.NoError(l.t, os.WriteFile(name, []byte(text), 0o644))
	}
}

// round lets a second's worth of things happen: traffic, a claim that comes and goes, one
// that fails, a publication, trouble with the API server.
func (l *load) round() {
	l.t.Helper()
	l.rounds++
	for i, name := range []string{"counters/port_rcv_data", "counters/port_xmit_data", "hw_counters/out_of_sequence"} {
		path := filepath.Join(l.Root, "sys/class/infiniband", ibdev, "ports/1", name)
		must.NoError(l.t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", 1_000_000_000_000+l.rounds*1_000_000*(i+1)), 0o644))
	}
	short := drivertest.Claim(1+l.rounds, roce)
	l.AddClaim(short)
	must.NoError(l.t, l.prepare(short))
	taken := drivertest.Claim(10000+l.rounds, ib)
	l.AddClaim(taken)
	must.Error(l.t, l.prepare(taken), must.Sprint("two claims have one device"))
	_, err := l.Unprepare(drivertest.Context(l.t), short)
	must.NoError(l.t, err)
	l.Fail(drivertest.GetClaim, http.StatusServiceUnavailable)
	must.Error(l.t, l.prepare(short), must.Sprint("a claim is prepared that could not be read"))
	l.Fail(drivertest.GetClaim, 0)
	l.Restart()
}

// TestDashboard: each query of the dashboard, and each recording rule, returns data from a
// driver at work. This node has InfiniBand and RoCE; the driver on a real kernel has the
// same questions in test/vm.
func TestDashboard(t *testing.T) {
	program := prometheus.Program(t, "prometheus")
	n := drivertest.NewNode(t, "dgx-h100-ib")
	address := prometheus.FreeAddress(t)
	n.Start(t, "", "--metrics-bind-address", address)
	p := prometheus.Start(t, prometheus.Config{Program: program, Target: address, Rules: rulesFile, Interval: time.Second})
	l, board := newLoad(t, n), prometheus.ReadDashboard(t, dashboard)
	must.GreaterEq(t, 30, len(board.Queries), must.Sprintf("the dashboard has %d queries", len(board.Queries)))
	left := append(slices.Clone(board.Queries), prometheus.ReadRecords(t, rulesFile)...)
	scrapes := 0
	err := drivertest.Await(5*time.Minute, func() (err error) { // each round waits ten seconds for the API server
		last := scrapes
		if scrapes = p.Scrapes(); scrapes == last {
			return fmt.Errorf("%d scrapes, and %d queries without data:\n%s", scrapes, len(left), strings.Join(left, "\n"))
		}
		l.round()
		if left, err = p.Unanswered(left, 2*time.Minute); err == nil && len(left) > 0 {
			err = fmt.Errorf("no data for:\n%s", strings.Join(left, "\n"))
		}
		return err
	})
	must.NoError(t, err)
	checkScrape(t, address)
	p.CheckVariables(t, board)
	p.CheckRules(t)
	checkMeaning(t, p)
}

// checkScrape has promtool judge names and units of what the driver serves.
func checkScrape(t *testing.T, address string) {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	must.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	promtool(t, string(text), "check", "metrics")
}

// checkMeaning asks for what must be true of this node.
func checkMeaning(t *testing.T, p *prometheus.Server) {
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
		if n, err := p.Data(expr); err != nil || len(n) == 0 {
			t.Errorf("no data for %s: %v", expr, err)
		}
	}
}

// TestPanels: the panels of the dashboard fill each line of Grafana's 24 columns.
func TestPanels(t *testing.T) {
	text, err := os.ReadFile(dashboard)
	must.NoError(t, err)
	var board struct {
		Panels []struct{ GridPos struct{ W, Y int } }
	}
	must.NoError(t, json.Unmarshal(text, &board))
	widths := map[int]int{}
	for _, p := range board.Panels {
		widths[p.GridPos.Y] += p.GridPos.W
	}
	for y, width := range widths {
		test.Eq(t, 24, width, test.Sprintf("columns that the line at %d fills", y))
	}
}
