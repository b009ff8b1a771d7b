package bench

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// BenchmarkSize is that of the programs, and how many Go modules they have. Floors are built as one
// builds programs; "pruned" compares with an empty driver that is built as ours.
func BenchmarkSize(b *testing.B) {
	for _, size := range []struct{ name, floor string }{
		{"dra-driver", "empty"}, {"dra-driver/pruned", "empty-pruned"}, {"cdi-gen", "nothing"}, {"rdma-hook", "nothing"},
	} {
		name, _, _ := strings.Cut(size.name, "/")
		b.Run("program="+size.name, func(b *testing.B) {
			report(b, "driver=ours", sizeOf(b, program(b, name)))
			report(b, "driver=empty", sizeOf(b, program(b, size.floor)))
		})
	}
	b.Run("image", func(b *testing.B) {
		for name, programs := range map[string][]string{"ours": {"dra-driver", "rdma-hook"}, "empty": {"empty"}} {
			report(b, "driver="+name, figures{"B": imageSize(b, programs)})
		}
	})
}

// imageSize is that of a container image with programs, as `make image` makes it.
func imageSize(b *testing.B, programs []string) float64 {
	b.Helper()
	path := filepath.Join(b.TempDir(), "image.tar")
	args := []string{"localhost/bench:v1", path}
	for _, name := range programs {
		args = append(args, program(b, name))
	}
	out, err := exec.Command("../../packaging/image.sh", args...).CombinedOutput()
	must.NoError(b, err, must.Sprintf("build an image\n%s", out))
	info, err := os.Stat(path)
	must.NoError(b, err)
	return float64(info.Size())
}

// TestPruned: the linker leaves out of the driver and of cdi-gen what nobody calls. It cannot once anything
// that runs finds methods by names that it is given, as templates do: then it keeps all, and
// the driver is half as large again.
func TestPruned(t *testing.T) {
	const template = "text/template.(*Template).Execute"
	for name, want := range map[string]bool{"dra-driver": false, "cdi-gen": false, "empty": true} {
		data, err := os.ReadFile(program(t, name))
		must.NoError(t, err)
		test.Eq(t, want, bytes.Contains(data, []byte(template)), test.Sprintf("%s has %s", name, template))
	}
}

func sizeOf(b *testing.B, path string) figures {
	b.Helper()
	info, err := os.Stat(path)
	must.NoError(b, err)
	build, err := buildinfo.ReadFile(path)
	must.NoError(b, err)
	return figures{"B": float64(info.Size()), "modules": float64(len(build.Deps))}
}

// idleTime is how long drivers are watched that have nothing to do. Twice in this time a driver looks at the health of
// its cards.
const idleTime = time.Minute

// BenchmarkFootprint is what a driver holds that has started, and what it does when nothing
// happens; and the memory after some claims ("busy"). The garbage collector says what of the heap is in use.
func BenchmarkFootprint(b *testing.B) {
	for _, devices := range []int{8, 1016} {
		b.Run(fmt.Sprintf("devices=%d", devices), func(b *testing.B) {
			pair, names := newPair(b, devices, "GODEBUG=gctrace=1")
			before, asked := map[*side]usage{}, map[*side]map[string]int{}
			for _, s := range pair {
				before[s], asked[s] = usageOf(b, s.driver.PID()), s.Requests()
			}
			time.Sleep(idleTime) // what is measured is what happens in this time
			of := map[*side]figures{}
			for _, s := range pair {
				f := memoryOf(b, s)
				now := usageOf(b, s.driver.PID())
				f["cpu-%"] = 100 * (now.processor - before[s].processor).Seconds() / idleTime.Seconds()
				f["wakeups/s"] = float64(now.wakeups-before[s].wakeups) / idleTime.Seconds()
				f["API-requests"] = 0
				for _, n := range perOp(asked[s], s.Requests(), 1) {
					f["API-requests"] += n
				}
				of[s] = f
			}
			claims := addClaims(pair, 0, rounds, names).free
			for _, s := range pair {
				s.prepareAtOnce(b, claims, make(times, len(claims)), atOnce)
				s.unprepare(b, claims...)
				for _, unit := range []string{"RSS-MiB", "anonymous-MiB", "heap-MiB"} {
					of[s]["busy-"+unit] = memoryOf(b, s)[unit]
				}
				report(b, "driver="+s.name, of[s])
			}
		})
	}
}

// usage is what a process has used since it started.
type usage struct {
	processor time.Duration
	user      int // clock ticks on a processor outside of the kernel, and in system calls
	system    int
	wakeups   int // how often its threads waited and went on
}

func usageOf(b *testing.B, pid int) usage {
	b.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	must.NoError(b, err)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must.NoError(b, err)
	_, rest, _ := strings.Cut(string(stat), ") ") // behind the name, which may have blanks
	fields := strings.Fields(rest)
	var u usage
	u.user, _ = strconv.Atoi(fields[11]) // utime and stime are numbers
	u.system, _ = strconv.Atoi(fields[12])
	for _, task := range tasks {
		u.wakeups += statusOf(b, task)["voluntary_ctxt_switches"]
		data, err := os.ReadFile(filepath.Join(task, "schedstat")) // nanoseconds on a processor, and more
		must.NoError(b, err)
		running, _, _ := strings.Cut(string(data), " ")
		ns, err := strconv.ParseInt(running, 10, 64)
		must.NoError(b, err)
		u.processor += time.Duration(ns)
	}
	return u
}

func memoryOf(b *testing.B, s *side) figures {
	b.Helper()
	proc := fmt.Sprintf("/proc/%d", s.driver.PID())
	status := statusOf(b, proc)
	open, err := os.ReadDir(proc + "/fd")
	must.NoError(b, err)
	return figures{
		"RSS-MiB": float64(status["VmRSS"]) / 1024, "anonymous-MiB": float64(status["RssAnon"]) / 1024, "file-MiB": float64(status["RssFile"]) / 1024,
		"heap-MiB": heapOf(b, s.driver.Output()), "threads": float64(status["Threads"]), "files": float64(len(open)),
	}
}

// collected is what the garbage collector says of each run: the heap as it began, as it ended, and of that
// what is in use.
var collected = regexp.MustCompile(`(?m)^gc \d+ .* \d+->\d+->(\d+) MB,`)

// heapOf is what of the heap was in use when it was last collected.
func heapOf(b *testing.B, output string) float64 {
	b.Helper()
	all := collected.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		b.Fatalf("the garbage collector said nothing: %s", output)
	}
	n, err := strconv.ParseFloat(all[len(all)-1][1], 64)
	must.NoError(b, err)
	return n
}

// statusOf are the numbers in the status of a process or thread.
func statusOf(b *testing.B, dir string) map[string]int {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "status"))
	must.NoError(b, err)
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if fields := strings.Fields(value); len(fields) > 0 {
			out[name], _ = strconv.Atoi(fields[0]) // 0 for what is no number
		}
	}
	return out
}
