package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// perDevice measures generate --to on machines of growing size, and fails where a
// device of a large one costs more than one of the middle, but for some slack. The
// file is written first, so that what is measured writes nothing.
func perDevice(t *testing.T, what string, slack float64, measure func(args []string) int) {
	t.Helper()
	if testing.Short() {
		t.Skip("writes forty thousand files")
	}
	cost := map[int]float64{}
	for _, n := range scales {
		args := []string{"generate", "--host-root", large(t, n), "--no-hook", "--to", t.TempDir()}
		cdigen(t, args...).expect(t, exitOK, "written")
		total := measure(args)
		cost[n] = float64(total) / float64(n)
		t.Logf("%d devices: %d %s, %.1f for each", n, total, what, cost[n])
	}
	if cost[1016] > cost[64]*slack {
		t.Errorf("%.1f %s for each of 1016 devices, %.1f for each of 64", cost[1016], what, cost[64])
	}
}

// TestAllocationsAreLinear: memory grows with the number of devices and no faster, but
// for directories of different sizes.
func TestAllocationsAreLinear(t *testing.T) {
	perDevice(t, "allocations", 1.2, func(args []string) int {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run(t.Context(), args, io.Discard, io.Discard)
		runtime.ReadMemStats(&after)
		return int(after.Mallocs - before.Mallocs)
	})
}

// fileCalls are the system calls that the program makes for files, as strace writes them.
var fileCalls = regexp.MustCompile(`(?m)^(?:\d+ +)?(\w+)\(`)

// TestSystemCallsAreLinear counts the system calls about files of the whole process,
// and those that change any: there are none where the spec is right already.
func TestSystemCallsAreLinear(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skipf("%v: install the package strace to run this test", err)
	}
	perDevice(t, "system calls", 1.01, func(args []string) int {
		trace := filepath.Join(t.TempDir(), "trace")
		cmd := program(t, args...)
		cmd.Args = append([]string{strace, "-f", "-qq", "-o", trace, "-e", "trace=%file,%desc", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = strace
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("strace does not work here: %v: %s", err, out)
		}
		data, err := os.ReadFile(trace)
		must.NoError(t, err)
		calls := fileCalls.FindAllSubmatch(data, -1)
		for _, call := range calls {
			switch name := string(call[1]); name {
			case "rename", "renameat", "renameat2", "fsync", "fdatasync", "chmod", "fchmod", "fchmodat":
				t.Errorf("%s although the spec is right", name)
			}
		}
		return len(calls)
	})
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
