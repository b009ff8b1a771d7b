package bench

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

var update = flag.Bool("update", false, "write testdata/counts.txt")

const baseline = "testdata/counts.txt"

// noise is what may be added by chance: what one thing more does to the mean of a few. What
// watches the CDI directory looks at records too, more or less often.
func noise(name string) float64 {
	if strings.Contains(name, "prepare") && (strings.HasSuffix(name, ": openat") || strings.HasSuffix(name, ": stat")) {
		return 2
	}
	return 0.5
}

// counts are how often something happens, by what it is: "prepare devices=8: GET
// resourceclaims" for each claim.
type counts map[string]float64

// add notes what was counted for n of something.
func (c counts) add(what string, each map[string]int, n int) {
	for name, count := range each {
		c[what+": "+name] = math.Round(10*float64(count)/float64(n)) / 10
	}
}

// addMost notes the median of what was counted for each of some claims. When the driver looks at
// its host, all records and specs are read: that may be in the midst of any claim.
func (c counts) addMost(what string, claims []map[string]int) {
	names := map[string]bool{}
	for _, asked := range claims {
		for name := range asked {
			names[name] = true
		}
	}
	for name := range names {
		var each []int
		for _, asked := range claims {
			each = append(each, asked[name])
		}
		slices.Sort(each)
		if median := each[len(each)/2]; median > 0 {
			c[what+": "+name] = float64(median)
		}
	}
}

// TestCounts counts what start, Prepare, Unprepare and discovery ask of the API server and
// of the file system. More than testdata/counts.txt has is a failure; less wants an
// update of it, so that it stays so:
//
//	go test -run TestCounts . -update
func TestCounts(t *testing.T) {
	drivertest.RequireRoot(t)
	if err := sysfault.Available(); err != nil {
		needs.Missing(t, err)
	}
	c := counts{}
	for _, devices := range []int{8, 1016} {
		m := machine(t, devices)
		s := ours(t, m)
		c.ofGenerate(t, s, devices)
		c.ofDriver(t, s, deviceNames(t, m))
	}
	if *update {
		must.NoError(t, c.write())
		return
	}
	want, err := readCounts()
	must.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		switch was, known := want[name]; {
		case c[name] > was+noise(name):
			t.Errorf("%s: %v times, %v in %s", name, c[name], was, baseline)
		case known && c[name] < was-noise(name):
			t.Logf("%s: %v times, %v in %s: keep it with -update", name, c[name], was, baseline)
		}
	}
}

// ofDriver counts the driver's work on a host with these devices.
func (c counts) ofDriver(t *testing.T, s *side, devices []string) {
	const claims = 8
	watched := sysfault.New(t)
	// What the driver reads for the status of claims, it reads in its own time.
	s.command = watched.Command(s.command[0], append(s.command[1:], "--claim-status=false")...)
	w := &asked{s: s, calls: watched.Arm(sysfault.Fault{Match: byName(s.Dir, s.StateDir, s.CDIDir)})}
	s.start(t, len(devices))
	on := fmt.Sprintf("devices=%d", len(devices))
	w.calls = watched.Arm(sysfault.Fault{Match: byName(s.Dir, s.StateDir, s.CDIDir)}) // how often it looks at files depends on who is first
	c.add("start "+on, w.since(), 1)

	var all []*resourceapi.ResourceClaim
	for i, d := range devices[:claims] {
		all = append(all, drivertest.Claim(i, d))
	}
	s.AddClaim(all...)
	for _, claim := range all { // the first pays for directories
		s.prepare(t, claim)
		s.unprepare(t, claim)
	}
	c.addMost("prepare "+on, w.each(t, s.prepare, all))
	c.addMost("prepare again "+on, w.each(t, s.prepare, all))
	c.addMost("unprepare "+on, w.each(t, s.unprepare, all))

	if len(devices) == claims {
		c.ofSharers(t, w, devices[0])
	}
}

// ofSharers counts a Prepare beside claims on the same HCA.
func (c counts) ofSharers(t *testing.T, w *asked, device string) {
	const sharers, claims = 32, 6
	s := w.s
	var all []*resourceapi.ResourceClaim
	for i := range sharers + claims {
		all = append(all, drivertest.Monitor(1000+i, device))
	}
	s.AddClaim(all...)
	s.prepare(t, all[:sharers]...)
	last := all[sharers:]
	s.prepare(t, last[0]) // the first reads the records of the others
	c.addMost(fmt.Sprintf("prepare beside %d sharers", sharers), w.each(t, s.prepare, last[1:]))
}

// byName matches the calls that name a file below directories: those on what is open
// already come with them, and their number depends on what the kernel gives at once.
func byName(dirs ...string) func(sysfault.Call) bool {
	below := sysfault.Below(dirs...)
	return func(call sysfault.Call) bool {
		switch call.Name {
		case "read", "fstat", "getdents":
			return false
		}
		return below(call)
	}
}

// asked is what a side asks since the last look.
type asked struct {
	s        *side
	calls    *sysfault.Shot
	seen     int
	requests map[string]int
}

// since returns what was asked since it was called last. How often the driver reads its
// node depends on the time.
func (w *asked) since() map[string]int {
	out := map[string]int{}
	requests, calls := w.s.Requests(), w.calls.Calls()
	for request, count := range requests {
		if request != drivertest.GetNode && count > w.requests[request] {
			out[request] = count - w.requests[request]
		}
	}
	for _, call := range calls[w.seen:] {
		out[nameOf(call)]++
	}
	w.seen, w.requests = len(calls), requests
	return out
}

// each returns what is asked for each of the claims.
func (w *asked) each(t testing.TB, f func(testing.TB, ...*resourceapi.ResourceClaim), claims []*resourceapi.ResourceClaim) []map[string]int {
	w.since()
	var out []map[string]int
	for _, claim := range claims {
		f(t, claim)
		out = append(out, w.since())
	}
	return out
}

func nameOf(call sysfault.Call) string {
	if call.Write {
		return call.Name + " to write"
	}
	return call.Name
}

// ofGenerate counts what cdi-gen reads of each device.
func (c counts) ofGenerate(t *testing.T, s *side, devices int) {
	c.add(fmt.Sprintf("cdi-gen devices=%d", devices), generateCalls(t, s.Root), devices)
}

// generateCalls counts the calls on files that cdi-gen makes to look at a host.
func generateCalls(t testing.TB, root string) map[string]int {
	t.Helper()
	// cdi-gen names files below the directory that it opened.
	sys, err := filepath.EvalSymlinks(filepath.Join(root, "sys"))
	must.NoError(t, err)
	watched := sysfault.New(t)
	shot := watched.Arm(sysfault.Fault{Match: byName(root, sys)})
	command := watched.Command(program(t, "cdi-gen"), generateArgs(root)...)
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	must.NoError(t, err, must.Sprintf("cdi-gen: %s", out))
	each := map[string]int{}
	for _, call := range shot.Calls() {
		each[nameOf(call)]++
		each["calls on files"]++
	}
	return each
}

func generateArgs(root string) []string {
	return []string{"generate", "--host-root", root, "--no-hook", "--output", "json"}
}

func (c counts) write() error {
	var b strings.Builder
	b.WriteString("# What happens how often: TestCounts of test/bench, with -update.\n")
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%8s  %s\n", strconv.FormatFloat(c[name], 'f', -1, 64), name)
	}
	return os.WriteFile(baseline, []byte(b.String()), 0o644)
}

func readCounts() (counts, error) {
	file, err := os.Open(baseline)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c := counts{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		value, name, ok := strings.Cut(strings.TrimSpace(lines.Text()), "  ")
		if strings.HasPrefix(value, "#") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !ok {
			return nil, fmt.Errorf("read %s: line %q: want a number and what it is of", baseline, lines.Text())
		}
		c[name] = n
	}
	return c, lines.Err()
}
