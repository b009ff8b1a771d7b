package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// scales are numbers of devices: a server, one with VFs, one with all VFs it can have.
var scales = []int{8, 64, 1016}

// large returns the host root of a machine of n functions.
func large(t testing.TB, n int) string {
	t.Helper()
	machines.Lock()
	defer machines.Unlock()
	dir := filepath.Join(machines.dir, fmt.Sprintf("large-%d", n))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	must.NoError(t, fixture.Synthesize(dir, n))
	return dir
}

// TestManyFunctions: two names for each function, and one for all.
func TestManyFunctions(t *testing.T) {
	needs.Proof(t, "it writes forty thousand files")
	n := scales[len(scales)-1]
	r := cdigen(t, "generate", "--host-root", large(t, n), "--no-hook", "--output", "json")
	r.expect(t, exitOK, "")
	spec := loads(t, r.stdout, "json")
	if len(spec.Devices) != 2*n+1 || spec.Version != "0.3.0" {
		t.Errorf("%d devices, CDI %s", len(spec.Devices), spec.Version)
	}
	nodes := map[string]int{}
	for _, d := range spec.Devices {
		for _, n := range d.ContainerEdits.DeviceNodes {
			nodes[n.Path]++
		}
	}
	for path, times := range nodes {
		test.Eq(t, 3, times, test.Sprintf("%s stands", path))
	}
	test.Eq(t, n, len(nodes), test.Sprint("nodes"))
}

// TestAllocationsAreLinear: memory grows with the number of devices and no faster, but for directories of different
// sizes. The file is written first, so that what is measured writes nothing.
func TestAllocationsAreLinear(t *testing.T) {
	needs.Proof(t, "it writes forty thousand files")
	each := map[int]float64{}
	for _, n := range scales {
		args := []string{"generate", "--host-root", large(t, n), "--no-hook", "--to", t.TempDir()}
		cdigen(t, args...).expect(t, exitOK, "written")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run(t.Context(), args, io.Discard, io.Discard)
		runtime.ReadMemStats(&after)
		each[n] = float64(after.Mallocs-before.Mallocs) / float64(n)
		t.Logf("%d devices: %.1f allocations for each", n, each[n])
	}
	if each[1016] > each[64]*1.2 {
		t.Errorf("%.1f allocations for each of 1016 devices, %.1f for each of 64", each[1016], each[64])
	}
}

// BenchmarkGenerate is the whole program but for its start, on files in memory.
func BenchmarkGenerate(b *testing.B) {
	for _, n := range scales {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			args := []string{"generate", "--host-root", large(b, n), "--no-hook", "--output", "json"}
			for b.Loop() {
				must.Eq(b, exitOK, run(b.Context(), args, io.Discard, io.Discard), must.Sprint("exit code"))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/device")
		})
	}
}
