package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

// perClaim is what a prepared claim takes on the tmpfs, which counts as memory of the driver's pod: two pages.
const perClaim = 8 << 10

// TestMemoryLimit: on the largest host, with claims, and with a policy that is made to take memory, the
// driver needs no more than half of what the chart gives its pod.
func TestMemoryLimit(t *testing.T) {
	const functions, claims = 1016, 100
	limit := chartMemoryLimit(t)
	machine, err := fixture.Large(functions)
	must.NoError(t, err)
	n := drivertest.NewNode(t, "none")
	n.Become(t, machine)
	config := filepath.Join(drivertest.TempDir(t), "config.yaml")
	writeConfig(t, config, "partitioning: false\n")
	p := n.Start(t, "", "--config", config)
	var names []string
	drivertest.Eventually(t, func() error {
		if names = deviceNames(n.Slices()); len(names) != functions {
			return fmt.Errorf("%d devices are published, want %d", len(names), functions)
		}
		return nil
	})
	started := peak(t, p)
	for i, name := range names[:claims] {
		c := drivertest.Claim(i+1, name)
		n.AddClaim(c)
		mustPrepare(t, n, c)
	}
	prepared := peak(t, p)
	writeConfig(t, config, "env: {"+strings.Repeat("a, ", 18_000)+"}\n") // within its size
	drivertest.Eventually(t, func() error {
		if !strings.Contains(p.Output(), "Policy not used") {
			return fmt.Errorf("the driver has not read its configuration")
		}
		return nil
	})
	most := peak(t, p) + functions*perClaim
	t.Logf("with %d HCAs: %d MiB at the start, %d MiB with %d claims, %d MiB with a hostile file and the files of a "+
		"claim on each; the limit is %d MiB",
		functions, started>>20, prepared>>20, claims, most>>20, limit>>20)
	test.LessEq(t, limit/2, most,
		test.Sprintf("the driver took %d MiB, more than half of the limit of %d MiB", most>>20, limit>>20))
}

func writeConfig(t *testing.T, path, text string) {
	t.Helper()
	must.NoError(t, os.WriteFile(path, []byte("apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n"+text), 0o644))
}

// chartMemoryLimit is the limit of the driver's container by the chart's defaults.
func chartMemoryLimit(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("../../deployments/helm/dra-driver-rdma/values.yaml")
	must.NoError(t, err)
	var values struct {
		Resources struct {
			Limits struct{ Memory resource.Quantity }
		}
	}
	must.NoError(t, yaml.Unmarshal(text, &values))
	must.Greater(t, 0, values.Resources.Limits.Memory.Value(), must.Sprint("the chart has no memory limit"))
	return values.Resources.Limits.Memory.Value()
}

// peak is the most that was resident of a process, files that it maps included.
func peak(t *testing.T, p *drivertest.Process) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	must.NoError(t, err)
	var kib int64
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatalf("no VmHWM in\n%s", status)
	return 0
}

func deviceNames(slices []resourceapi.ResourceSlice) []string {
	var names []string
	for _, s := range slices {
		for _, d := range s.Spec.Devices {
			names = append(names, d.Name)
		}
	}
	return names
}
