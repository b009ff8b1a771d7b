package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/prometheus"
)

// scrape returns the metrics as text.
func scrape(address string) (string, error) {
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return string(text), err
}

// eventuallyHas waits until a scrape has lines that match each of the patterns.
func eventuallyHas(t *testing.T, address string, patterns ...string) string {
	t.Helper()
	var text string
	drivertest.Eventually(t, func() error {
		var err error
		if text, err = scrape(address); err != nil {
			return err
		}
		for _, p := range patterns {
			if !regexp.MustCompile("(?m)^" + p + "$").MatchString(text) {
				return fmt.Errorf("no line %s in:\n%s", p, brief(text))
			}
		}
		return nil
	})
	return text
}

// brief drops what is long and the same everywhere.
func brief(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "rdma_") && !strings.Contains(line, "_bucket") && !strings.Contains(line, "counter=") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestMetrics: a claim's way can be followed from outside, and what belongs to it goes with
// it.
func TestMetrics(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	address := prometheus.FreeAddress(t)
	n.Start(t, "", "--metrics-bind-address", address)
	c := drivertest.Claim(1, hcas[0])
	n.AddClaim(c)
	n.AddPod("trainer-0", c)
	mustPrepare(t, n, c)
	owned := `device="pci-0000-19-00-0",ibdev="mlx5_0",namespace="team-a",pod="trainer-0",port="1"`
	eventuallyHas(t, address,
		`rdma_port_received_bytes_total\{claim="claim-1",`+owned+`\} 2.757598620356e\+12`,
		`rdma_port_statistic_total\{claim="claim-1",counter="port_rcv_data",`+owned+`\} 6.89399655089e\+11`,
		`rdma_port_hw_statistic_total\{claim="claim-1",counter="out_of_buffer",`+owned+`\} 0`,
		`rdma_port_received_bytes_total\{claim="",device="pci-0000-29-00-0",.*`,
		`rdma_device_allocation_info\{claim="claim-1",device="pci-0000-19-00-0",`+
			`dra_device="pci-0000-19-00-0",namespace="team-a",pod="trainer-0"\} 1`,
		`rdma_driver_prepare_duration_seconds_count\{phase="claim"\} 1`,
		`rdma_driver_prepare_duration_seconds_bucket\{phase="call",le="0.0001"\} .*`,
		`rdma_driver_prepared_claims 1`, `rdma_driver_allocated_devices\{kind="exclusive"\} 1`,
		`rdma_driver_published_devices\{kind="exclusive"\} 9`,
		`rdma_driver_registered 1`, `rdma_driver_pod_resources_up 1`,
		`rdma_driver_api_requests_total\{code="200",method="GET"\} .*`,
		`rdma_device_healthy\{device="pci-0000-19-00-0",ibdev="mlx5_0"\} 1`, `go_goroutines .*`, `process_open_fds .*`,
		`rdma_driver_build_info\{.*`)
	if _, err := prepared(t, n, drivertest.Claim(2, hcas[0])); err == nil {
		t.Error("a claim that nobody knows is prepared")
	}
	taken := drivertest.Claim(3, hcas[0])
	n.AddClaim(taken)
	if _, err := prepared(t, n, taken); err == nil {
		t.Error("two claims have one device")
	}
	eventuallyHas(t, address, `rdma_driver_claim_errors_total\{operation="prepare",reason="in_use"\} 1`,
		`rdma_driver_claim_errors_total\{operation="prepare",reason="api"\} 1`)
	mustUnprepare(t, n, c)
	text := eventuallyHas(t, address, `rdma_driver_prepared_claims 0`,
		`rdma_driver_unprepare_duration_seconds_count\{phase="claim"\} 1`)
	test.StrNotContains(t, text, "claim-1", test.Sprintf("the claim is gone, and still named in:\n%s", brief(text)))
}

// TestMetricsHandOver: of two drivers the old one answers until it ends, and then the new
// one; neither waits for the other to work.
func TestMetricsHandOver(t *testing.T) {
	n := drivertest.NewNode(t, "soft")
	address := prometheus.FreeAddress(t)
	old := n.Start(t, "11111111-0000-4000-8000-000000000001", "--metrics-bind-address", address)
	first := process(t, eventuallyHas(t, address, `rdma_driver_registered 1`))
	n.Start(t, "22222222-0000-4000-8000-000000000002", "--metrics-bind-address", address)
	for range 5 {
		text, err := scrape(address)
		must.NoError(t, err)
		test.Eq(t, first, process(t, text), test.Sprint("the new driver answers while the old one serves"))
	}
	test.Eq(t, exitcode.OK, old.Terminate(), test.Sprint("exit code of the old driver"))
	test.NotEq(t, first, process(t, eventuallyHas(t, address, `rdma_driver_registered 1`)),
		test.Sprint("the old driver still answers"))
}

// process tells processes apart by what a scrape says of them.
func process(t *testing.T, text string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^process_start_time_seconds .*$`).FindString(text)
	must.NotEq(t, "", m, must.Sprintf("no start time in:\n%s", text))
	return m
}

// TestMetricsUsage: addresses and certificates that cannot be right are bad usage, and
// none is the default.
func TestMetricsUsage(t *testing.T) {
	for _, args := range [][]string{{"--metrics-bind-address", "9485"},
		{"--metrics-bind-address", ":9485", "--metrics-tls-cert-file", "/tls.crt"}} {
		var stderr strings.Builder
		args = append([]string{"--node-name", "n"}, args...)
		if code := run(t.Context(), args, func(string) string { return "" }, io.Discard, &stderr); code != exitcode.Usage {
			t.Errorf("%v: exit code %d: %s", args, code, &stderr)
		}
	}
}
