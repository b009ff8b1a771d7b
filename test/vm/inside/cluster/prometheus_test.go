package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/prometheus"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/published"
)

// window is what rates are taken over: all that happens here is in it.
const window = 15 * time.Minute

// notOfSoftRoCE maps metrics and counters to the reason why a query for them has no data here.
// Package test/monitoring has data for each of them, from a host with ConnectX.
var notOfSoftRoCE = map[string]string{
	"rdma_port_received_bytes":    "rdma_rxe counts packets and no bytes",
	"rdma_port_transmitted_bytes": "rdma_rxe counts packets and no bytes",
	"rdma_port_utilization":       "rdma_rxe counts packets and no bytes",
	"rdma_port_statistic_total":   "rdma_rxe has no ports/N/counters",
	"np_cnp_sent":                 "rdma_rxe neither sends nor handles congestion notifications",
	"out_of_buffer":               "rdma_rxe counts no lack of buffers",
}

// busy is a pod whose two containers have traffic again and again. Both containers have limits on what they open.
// Neither container may use up a CPU: the guest has only two.
var busy = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: limited}
spec:
  selectors: [{cel: {expression: 'device.driver == "rdma.dev"'}}]
  config: [{opaque: {driver: rdma.dev, parameters: {apiVersion: rdma.dev/v1alpha1, kind: HCAClassConfig, defaults: {limits: {handles: 8, objects: 100}}}}}]
---` + strings.Replace(oneHCA("busy", `device.attributes["rdma.dev"].ibdev == "rxe0"`), "hca.rdma.dev", "limited", 1) +
	pod("busy", "busy", containers("hca", map[string]string{
		"receiver": look + `while :; do timeout 120 ibv_rc_pingpong -e -d $device -g 1 -n 200; done`,
		"sender":   look + await + `while :; do await 18515; timeout 120 ibv_rc_pingpong -e -d $device -g 1 -n 200 127.0.0.1; sleep 1; done`,
	}))

// TestDashboard: each query of the dashboard, and each recording rule, returns data from a
// Prometheus that scrapes the driver while a pod has traffic, after another one ended and
// the API server refused the driver once, and while a device has no link. The container
// that ends here had limits, so no test that removes a device may follow (docs/hook.md).
func TestDashboard(t *testing.T) {
	needs.Long(t, "TestDashboard of test/monitoring has a real Prometheus ask a driver at work, and TestTraffic traffic")
	checkout, err := deploy.FindCheckout()
	must.NoError(t, err)
	monitoring := filepath.Join(checkout.Chart(), "monitoring")
	rules := filepath.Join(monitoring, "rules.yaml")
	p := prometheus.Start(t, prometheus.Config{Program: os.Getenv("PROMETHEUS"), Target: os.Getenv("METRICS"), Rules: rules, Interval: 5 * time.Second})
	holds(t, p, `up{job="rdma"} == 1`)
	apply(t, oneHCA("short", `device.attributes["rdma.dev"].ibdev == "rxe1"`)+pod("short", "short", containers("hca", map[string]string{"sender": look})))
	succeeds(t, "short", "sender")
	refused(t, p)
	back := withoutLink(t, "dummy0")
	board := prometheus.ReadDashboard(t, filepath.Join(monitoring, "dashboard.json"))
	left := append(slices.Clone(board.Queries), prometheus.ReadRecords(t, rules)...)
	none := slices.DeleteFunc(slices.Clone(left), func(q string) bool { return why(q) == "" })
	left = slices.DeleteFunc(left, func(q string) bool { return why(q) != "" })
	t.Logf("%d queries, and without data here:\n%s", len(left), strings.Join(none, "\n"))
	inside.Eventually(t, "all queries have data", 10*time.Minute, func() (err error) {
		if left, err = p.Unanswered(left, window); err == nil && len(left) > 0 {
			err = fmt.Errorf("no data for:\n%s", strings.Join(left, "\n"))
		}
		return err
	})
	if silent, err := p.Unanswered(none, window); err != nil || !slices.Equal(silent, none) {
		t.Errorf("there is data where none is expected (%v): only these have none:\n%s", err, strings.Join(silent, "\n"))
	}
	p.CheckVariables(t, board)
	p.CheckRules(t)
	meaning(t, p)
	back()
	// The next test wants the devices.
	kubectl(t, "delete", "--timeout=3m", "pod/busy", "pod/short", "resourceclaim/busy", "resourceclaim/short", "deviceclass/limited")
}

// why returns the reason that a query has no data here, empty if it has.
func why(query string) string {
	for words, reason := range notOfSoftRoCE {
		if strings.Contains(query, words) {
			return reason
		}
	}
	return ""
}

// withoutLink takes the link of a device down. The function that it returns brings it back,
// and waits until the driver has said so.
func withoutLink(t *testing.T, link string) (back func()) {
	t.Helper()
	pool := published.Follow(t, api(t))
	inside.Must(t, "ip", "link", "set", link, "down")
	up := func() { inside.Must(t, "ip", "link", "set", link, "up") }
	t.Cleanup(up) // where the test does not come so far; nothing is followed any more then
	return func() {
		up()
		pool.Await(t, held, published.Tainted())
	}
}

// refused starts the pod while the driver may read no claim, and gives it the right again
// when Prometheus has heard of that.
func refused(t *testing.T, p *prometheus.Server) {
	t.Helper()
	account := func(name string) {
		kubectl(t, "patch", "clusterrolebinding", deploy.Release, "--type=json",
			"--patch", fmt.Sprintf(`[{"op": "replace", "path": "/subjects/0/name", "value": %q}]`, name))
	}
	driver := kubectl(t, "get", "clusterrolebinding", deploy.Release, "--output=jsonpath={.subjects[0].name}")
	account("nobody")
	apply(t, busy)
	holds(t, p, `rdma_driver_claim_errors_total{operation="prepare",reason="api"} > 0`)
	account(driver)
	kubectl(t, "wait", "--for=condition=Ready", "pod/busy", "--timeout=10m")
}

// holds waits until an expression has data.
func holds(t *testing.T, p *prometheus.Server, expr string) (value float64) {
	t.Helper()
	inside.Eventually(t, expr, 3*time.Minute, func() error {
		numbers, err := p.Data(expr)
		if err == nil && len(numbers) == 0 {
			err = errors.New("no data")
		}
		if err == nil {
			value = numbers[0]
		}
		return err
	})
	return value
}

// meaning asks for what must be true of this node, and has a counter of the kernel in
// Prometheus as the kernel has it.
func meaning(t *testing.T, p *prometheus.Server) {
	t.Helper()
	for _, expr := range []string{
		`rate(rdma_port_transmitted_packets_total{ibdev="rxe0",namespace="default",claim="busy",pod="busy"}[15m]) > 0`,
		`max_over_time(rdma_container_objects{ibdev="rxe0",pod="busy"}[15m]) > 0`,
		`rdma_container_objects_limit{ibdev="rxe0",pod="busy"} == 100`,
		`rdma_container_handles_limit{ibdev="rxe0",pod="busy"} == 8`,
		`rdma_driver_hook_reports_total{what="limit",outcome="limited"} > 0`,
		`rdma_device_healthy{ibdev="rxe1"} == 0`,
		`rdma_device_taint{ibdev="rxe1",key="rdma.dev/port-down"} == 1`,
		`rdma_driver_published_devices{kind="exclusive"} == 2`,
		`rdma_driver_api_failures_total{reason="forbidden"} > 0`,
	} {
		holds(t, p, expr)
	}
	before := inside.SentPackets(t, "rxe0")
	scraped := holds(t, p, fmt.Sprintf(`rdma_port_hw_statistic_total{ibdev="rxe0",counter="sent_pkts"} >= %d`, before))
	if after := inside.SentPackets(t, "rxe0"); scraped > float64(after) {
		t.Errorf("Prometheus has %.0f packets, the kernel %d", scraped, after)
	}
}
