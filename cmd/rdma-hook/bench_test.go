package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
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
