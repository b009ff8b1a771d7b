package main

import (
	"io"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/fixture"
)

const manyFunctions = 1024

// large returns the host root of a machine of 1,024 functions.
func large(t testing.TB) string {
	t.Helper()
	dir := host(t, "none") + "-large"
	machines.Lock()
	defer machines.Unlock()
	if !machines.large {
		if err := fixture.Synthesize(dir, manyFunctions); err != nil {
			t.Fatal(err)
		}
		machines.large = true
	}
	return dir
}

// TestManyFunctions: two names for each function, and one for all.
func TestManyFunctions(t *testing.T) {
	if testing.Short() {
		t.Skip("writes forty thousand files")
	}
	r := cdigen(t, "generate", "--host-root", large(t), "--no-hook", "--format", "json")
	r.expect(t, exitOK, "")
	spec := loads(t, r.stdout, "json")
	if len(spec.Devices) != 2*manyFunctions+1 || spec.Version != "0.3.0" {
		t.Errorf("%d devices, CDI %s", len(spec.Devices), spec.Version)
	}
	nodes := map[string]int{}
	for _, d := range spec.Devices {
		for _, n := range d.ContainerEdits.DeviceNodes {
			nodes[n.Path]++
		}
	}
	for path, times := range nodes {
		if times != 3 {
			t.Errorf("%s stands %d times; want once for each name and once for all", path, times)
		}
	}
	if len(nodes) != manyFunctions {
		t.Errorf("%d nodes; want one for each function", len(nodes))
	}
}

// BenchmarkGenerate is the whole program but for its start: 1,024 functions, on
// files in memory.
func BenchmarkGenerate(b *testing.B) {
	args := []string{"generate", "--host-root", large(b), "--no-hook", "--format", "json"}
	for b.Loop() {
		if code := run(b.Context(), args, io.Discard, io.Discard); code != exitOK {
			b.Fatalf("exit code %d", code)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/manyFunctions, "µs/function")
}
