package bench

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkSize is that of the programs, and how many Go modules they have.
func BenchmarkSize(b *testing.B) {
	for _, name := range []string{"dra-driver", "cdi-gen", "rdma-hook"} {
		floor := "nothing"
		if name == "dra-driver" {
			floor = "empty"
		}
		b.Run("program="+name, func(b *testing.B) {
			report(b, "driver=ours", sizeOf(b, program(b, name)))
			report(b, "driver=empty", sizeOf(b, program(b, floor)))
		})
	}
}

func sizeOf(b *testing.B, path string) figures {
	b.Helper()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	build, err := buildinfo.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return figures{"B": float64(info.Size()), "modules": float64(len(build.Deps))}
}

// idleTime is how long drivers are watched that have nothing to do.
const idleTime = 30 * time.Second

// BenchmarkFootprint is what a driver holds that has started, and what it does when nothing
// happens.
func BenchmarkFootprint(b *testing.B) {
	for _, devices := range []int{8, 1016} {
		b.Run(fmt.Sprintf("devices=%d", devices), func(b *testing.B) {
			pair, _ := newPair(b, devices)
			before, asked := map[*side]usage{}, map[*side]map[string]int{}
			for _, s := range pair {
				before[s], asked[s] = usageOf(b, s.driver.PID()), s.Requests()
			}
			time.Sleep(idleTime) // what is measured is what happens in this time
			for _, s := range pair {
				f := memoryOf(b, s.driver.PID())
				now := usageOf(b, s.driver.PID())
				f["cpu-%"] = 100 * (now.processor - before[s].processor).Seconds() / idleTime.Seconds()
				f["wakeups/s"] = float64(now.wakeups-before[s].wakeups) / idleTime.Seconds()
				f["API-requests"] = 0
				for _, n := range perOp(asked[s], s.Requests(), 1) {
					f["API-requests"] += n
				}
				report(b, "driver="+s.name, f)
			}
		})
	}
}

// usage is what a process has used since it started.
type usage struct {
	processor time.Duration
	wakeups   int // how often its threads waited and went on
}

func usageOf(b *testing.B, pid int) usage {
	b.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		b.Fatal(err)
	}
	var u usage
	for _, task := range tasks {
		u.wakeups += statusOf(b, task)["voluntary_ctxt_switches"]
		data, err := os.ReadFile(filepath.Join(task, "schedstat")) // nanoseconds on a processor, and more
		if err != nil {
			b.Fatal(err)
		}
		running, _, _ := strings.Cut(string(data), " ")
		ns, err := strconv.ParseInt(running, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		u.processor += time.Duration(ns)
	}
	return u
}

func memoryOf(b *testing.B, pid int) figures {
	b.Helper()
	proc := fmt.Sprintf("/proc/%d", pid)
	status := statusOf(b, proc)
	open, err := os.ReadDir(proc + "/fd")
	if err != nil {
		b.Fatal(err)
	}
	return figures{
		"RSS-MiB": float64(status["VmRSS"]) / 1024, "anonymous-MiB": float64(status["RssAnon"]) / 1024,
		"threads": float64(status["Threads"]), "files": float64(len(open)),
	}
}

// statusOf are the numbers in the status of a process or thread.
func statusOf(b *testing.B, dir string) map[string]int {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		b.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if fields := strings.Fields(value); len(fields) > 0 {
			out[name], _ = strconv.Atoi(fields[0]) // 0 for what is no number
		}
	}
	return out
}
