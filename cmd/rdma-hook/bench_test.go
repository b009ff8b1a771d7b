package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
)

// BenchmarkStart runs the hook and an empty Go program in turn, each with an OCI
// state on standard input, from fork to exit. It reports the median of both
// and their ratio: the ratio is what the hook's own code and imports cost, the rest is
// the Go runtime. Run it with
//
//	go test -run '^$' -bench Start -benchtime 1000x ./cmd/rdma-hook
//
// The sub-benchmarks are what a CDI spec may say: GOMAXPROCS=1 in the hook's
// env spares the runtime its other threads, a limit costs a look at the cgroup (on
// a tmpfs here) and a write, a report a file.
func BenchmarkStart(b *testing.B) {
	hook, empty := build(b, "."), build(b, "./testdata/empty")
	for _, bm := range []struct {
		name   string
		limit  bool
		report bool
		env    []string
	}{
		{"plain", false, false, nil},
		{"one-proc", false, false, []string{"GOMAXPROCS=1"}},
		{"limit-one-proc", true, false, []string{"GOMAXPROCS=1"}},
		{"report", false, true, nil},
		{"report-one-proc", false, true, []string{"GOMAXPROCS=1"}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			args := []string{"--memlock", "1Mi", "--on-denied", "ignore"}
			if bm.report {
				args = append(args, "--report", b.TempDir())
			}
			if bm.limit {
				fakeCgroup(b)
				args = append(args, "--limit", "rxe0:handles=4,objects=100")
			}
			var of, base []time.Duration
			for b.Loop() {
				if bm.limit {
					writeMax(b, noLimits)
				}
				// Every container has an ID of its own: replacing a report would make
				// ext4 flush it.
				state := fmt.Sprintf(`{"ociVersion":"1.0.2","id":"bench%d","status":"creating","pid":%d,"bundle":"/b",`+
					`"annotations":{}}`,
					len(of), os.Getpid())
				base = append(base, start(b, empty, state, nil, nil))
				of = append(of, start(b, hook, state, args, bm.env))
			}
			b.ReportMetric(0, "ns/op") // would be both programs together
			b.ReportMetric(float64(median(of).Nanoseconds()), "hook-ns")
			b.ReportMetric(float64(median(base).Nanoseconds()), "empty-ns")
			b.ReportMetric(float64(median(of))/float64(median(base)), "ratio")
		})
	}
}

// BenchmarkUsable runs the hook with and without the checks of an HCA in turn, on an image with five providers. It
// reports the median of both and their ratio.
//
//	go test -run '^$' -bench Usable -benchtime 500x ./cmd/rdma-hook
func BenchmarkUsable(b *testing.B) {
	path, bundle := build(b, "."), b.TempDir()
	makeUsable(b, bundle)
	state := fmt.Sprintf(`{"ociVersion":"1.0.2","id":"bench","status":"creating","pid":%d,"bundle":%q}`, os.Getpid(), bundle)
	args := []string{"--memlock", "1Mi", "--on-denied", "ignore", "--report", b.TempDir()}
	env := []string{"GOMAXPROCS=1"}
	var with, without []time.Duration
	for b.Loop() {
		without = append(without, start(b, path, state, args, env))
		with = append(with, start(b, path, state, append(args, "--hca", "mlx5_0:uverbs0:mlx5_core"), env))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(with).Nanoseconds()), "with-ns")
	b.ReportMetric(float64(median(without).Nanoseconds()), "without-ns")
	b.ReportMetric(float64(median(with))/float64(median(without)), "ratio")
}

// makeUsable makes a bundle whose image has five providers, and a node.
func makeUsable(tb testing.TB, bundle string) {
	tb.Helper()
	root := filepath.Join(bundle, "rootfs")
	i := rdmaimage.Debian(all...)
	i.Files["dev/infiniband/uverbs0"] = ""
	i.Make(tb, root)
	config, err := json.Marshal(container{memlock: 2 << 20}.spec(""))
	if err == nil {
		err = os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// TestUsableSystemCalls: the checks of an HCA cost few system calls.
func TestUsableSystemCalls(t *testing.T) {
	strace := needs.Program(t, "strace", "apt-get install strace")
	path, bundle := build(t, "."), t.TempDir()
	makeUsable(t, bundle)
	count := func(args ...string) int {
		log := filepath.Join(t.TempDir(), "log")
		cmd := exec.Command(strace, append([]string{"-f", "-qq", "-o", log, "-e", "trace=%file,%desc", path}, args...)...)
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"id":"web","status":"creating","pid":%d,"bundle":%q}`, os.Getpid(), bundle))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	without, with := count("--on-unusable", "warn"), count("--hca", "mlx5_0:uverbs0:mlx5_core")
	t.Logf("%d system calls of files without checks, %d with", without, with)
	test.LessEq(t, 160, with-without,
		test.Sprintf("the checks cost %d system calls, want at most 160", with-without))
}

// start runs one program with this process as the one in the state.
func start(b *testing.B, path, state string, args, env []string) time.Duration {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprint(w, state)
	w.Close()
	var stderr bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Env = append([]string{"PATH=/"}, env...)
	cmd.Stdin, cmd.Stderr = r, &stderr
	begin := time.Now()
	err = cmd.Run()
	took := time.Since(begin)
	r.Close()
	if err != nil {
		b.Fatalf("%s: %v\n%s", path, err, &stderr)
	}
	return took
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
