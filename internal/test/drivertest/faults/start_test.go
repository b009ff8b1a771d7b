package faults

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

// disorder leaves what a driver may find at its start: a prepared claim without a
// spec, a spec without a record, a record of an earlier boot, and files that a killed
// driver did not finish.
func (f *faulty) disorder(prepared *resourceapi.ResourceClaim) {
	f.t.Helper()
	record := filepath.Join(f.RecordDir(), string(prepared.UID)+".json")
	data, err := os.ReadFile(record)
	must.NoError(f.t, err)
	old := drivertest.Claim(9000, faultHCA)
	orphan := drivertest.Claim(9001, faultHCA)
	earlier := strings.NewReplacer(string(prepared.UID), string(old.UID), drivertest.BootID(f.t), "an-earlier-boot").Replace(string(data))
	if err := os.Remove(drivertest.SpecPath(f.CDIDir, prepared)); err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	f.sweep()
	hourAgo := time.Now().Add(-time.Hour)
	for path, content := range map[string]string{
		filepath.Join(f.RecordDir(), string(old.UID)+".json"): earlier,
		drivertest.SpecPath(f.CDIDir, orphan):                 `{"cdiVersion": "0.3.0", "kind": "rdma.dev/claim", "devices": [{"name": "x", "containerEdits": {"env": ["A=b"]}}]}`,
		filepath.Join(f.CDIDir, ".rdma.dev-1.tmp"):            "{",
		filepath.Join(f.RecordDir(), ".rdma.dev-2.tmp"):       "{",
	} {
		must.NoError(f.t, os.WriteFile(path, []byte(content), 0o644))
		must.NoError(f.t, os.Chtimes(path, hourAgo, hourAgo))
	}
}

// sweep removes what killed drivers left half written, which the driver keeps for a
// minute.
func (f *faulty) sweep() {
	f.t.Helper()
	for _, dir := range []string{f.CDIDir, f.RecordDir()} {
		left, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
		must.NoError(f.t, err)
		for _, path := range left {
			must.NoError(f.t, os.Remove(path))
		}
	}
}

// TestFaultInStart lets each call on a file fail that a driver makes on its way to
// serve the kubelet; of calls that are alike, as those on the same file of two HCAs, the first one,
// but in make test-long. It either ends and says why, and the next one, which the kubelet
// starts, serves and finds everything in order; or it serves, and mends by itself
// what it could not do.
func TestFaultInStart(t *testing.T) {
	t.Parallel()
	f, c := newDisordered(t)
	var late []place
	ended := 0
	ours, tried := sysfault.Below(append(append(f.own(), f.host()...), f.Dir)...), map[string]bool{}
	for n := 1; !t.Failed(); n++ {
		nth, match := n, ours
		if !needs.IsLong() {
			before := maps.Clone(tried) // the driver goes on with its calls
			nth, match = 1, func(call sysfault.Call) bool { return ours(call) && !before[f.shape(call)] }
		}
		shot, p := f.startWithFault(c, nth, match)
		call, fired := shot.Fired()
		tried[f.shape(call)] = true
		err := invariants.AtRest(f.Worker, invariants.Claims{Prepared: []*resourceapi.ResourceClaim{c}})
		switch said := p.Output(); {
		case p.HasEnded():
			ended++
			test.StrContains(t, said, unix.EIO.Error(),
				test.Sprintf("EIO at call %d, %v: the driver ended", n, call))
			f.end(p)
			p = f.start()
			f.atRest(invariants.Claims{Prepared: []*resourceapi.ResourceClaim{c}})
		case err != nil:
			late = append(late, f.place(shot.Calls()[:nth]))
			test.StrContains(t, said, unix.EIO.Error(),
				test.Sprintf("EIO at call %d, %v: %v, and the driver", n, call, err))
		}
		f.end(p)
		if !fired {
			t.Logf("%d calls: %d end the driver, after %d it serves and has something to mend", n-1, ended, len(late))
			break
		}
	}
	for _, at := range late {
		t.Run(fmt.Sprintf("mends after %s %d", at.call, at.n), func(t *testing.T) {
			t.Parallel() // each waits for the driver's next look at the host
			f, c := newDisordered(t)
			shot, _ := f.startWithFault(c, at.n, func(call sysfault.Call) bool { return f.anonymous(call) == at.call })
			if _, fired := shot.Fired(); !fired {
				t.Fatal("there was no such call")
			}
			began := time.Now()
			var err error
			for time.Since(began) < 2*patience {
				if err = invariants.AtRest(f.Worker, invariants.Claims{Prepared: []*resourceapi.ResourceClaim{c}}); err == nil {
					t.Logf("after %v", time.Since(began).Round(time.Second))
					return
				}
				time.Sleep(10 * time.Millisecond) // between two looks at the condition
			}
			t.Errorf("after %v: %v", time.Since(began), err)
		})
	}
}

// place is the n-th of the calls that look the same on any node.
type place struct {
	call string
	n    int
}

// place says where the last one of the calls is.
func (f *faulty) place(calls []sysfault.Call) place {
	at := place{call: f.anonymous(calls[len(calls)-1])}
	for _, c := range calls {
		if f.anonymous(c) == at.call {
			at.n++
		}
	}
	return at
}

var temporaryName = regexp.MustCompile(`\.rdma\.dev-[0-9]+\.tmp`)

// anonymous is a call without the names of this node's directories.
func (f *faulty) anonymous(c sysfault.Call) string {
	replace := []string{f.CDIDir, "CDI", f.StateDir, "STATE", f.PluginDir(), "PLUGIN", f.Dir, "KUBELET"}
	for _, dir := range f.host() {
		replace = append(replace, dir, filepath.Base(dir))
	}
	return temporaryName.ReplaceAllString(strings.NewReplacer(replace...).Replace(c.String()), "TEMPORARY")
}

var alike = []struct {
	calls *regexp.Regexp
	as    string
}{
	{regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`), "N"},
	{regexp.MustCompile(`^read sys/.*`), "read sys"},             // as the open of the file, which has failed before
	{regexp.MustCompile(`^(openat sys/.*/).*`), "${1}ATTRIBUTE"}, // of one directory
}

// shape is what calls have in common that fail in the same place of the driver.
func (f *faulty) shape(c sysfault.Call) string {
	shape := f.anonymous(c)
	for _, a := range alike {
		shape = a.calls.ReplaceAllString(shape, a.as)
	}
	return shape
}

// patience is how long the driver may take to look at its host without a reason.
const patience = 30 * time.Second

// newDisordered is a node with a prepared claim and no driver.
func newDisordered(t *testing.T) (*faulty, *resourceapi.ResourceClaim) {
	f := newFaulty(t, faultMachine)
	c := drivertest.Claim(1, faultHCA)
	f.AddClaim(c)
	p := f.start()
	must.NoError(t, f.prepareOnce(c))
	f.end(p)
	return f, c
}

// startWithFault starts a driver in disorder whose n-th call of a kind fails, and waits
// until it serves or has ended.
func (f *faulty) startWithFault(c *resourceapi.ResourceClaim, n int, match func(sysfault.Call) bool) (*sysfault.Shot, *drivertest.Process) {
	f.t.Helper()
	f.disorder(c)
	shot := f.Arm(sysfault.Fault{N: n, Match: match, Do: sysfault.Error(unix.EIO)})
	defer shot.Disarm()
	p := f.launch()
	f.registered(p)
	return shot, p
}
