package hook

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

func parseLimits(t *testing.T, flags string) (limits []args.Limit) {
	t.Helper()
	for _, f := range strings.Fields(flags) {
		l, err := args.ParseLimit(f)
		must.NoError(t, err)
		limits = append(limits, l)
	}
	return limits
}

// TestSetLimits: what stands in rdma.max before, what is asked for, and what stands
// there afterwards.
func TestSetLimits(t *testing.T) {
	for _, tt := range []struct {
		name, before, limits, after string
		outcomes                    []record.Outcome
	}{
		{"the first limit replaces max", "", "rxe0:handles=4,objects=100", "4 100", []record.Outcome{record.Limited}},
		{"handles only", "", "rxe0:handles=4", "4 max", []record.Outcome{record.Limited}},
		{"objects only", "", "rxe0:objects=100", "max 100", []record.Outcome{record.Limited}},
		{"the same again", "4 100", "rxe0:handles=4,objects=100", "4 100", []record.Outcome{record.Already}},
		{"a larger one raises", "4 100", "rxe0:handles=8,objects=200", "8 200", []record.Outcome{record.Limited}},
		{"a smaller one never lowers", "4 100", "rxe0:handles=2,objects=50", "4 100", []record.Outcome{record.Already}},
		{"each for itself", "4 100", "rxe0:handles=2,objects=200", "4 200", []record.Outcome{record.Limited}},
		{"objects later", "4 max", "rxe0:objects=200", "4 200", []record.Outcome{record.Limited}},
		{"what is not asked for stays", "4 100", "rxe0:objects=200", "4 200", []record.Outcome{record.Limited}},
		{"a limit of nothing is raised", "0 0", "rxe0:handles=1,objects=1", "1 1", []record.Outcome{record.Limited}},
		{"one that is no limit", "", "rxe0:handles=2147483647,objects=99999999999", "", []record.Outcome{record.Already}},
		{"no limit for one of them", "", "rxe0:handles=1,objects=2147483648", "1 max", []record.Outcome{record.Limited}},
		{"two claims in one hook", "", "rxe0:handles=1,objects=9 rxe0:handles=3,objects=2", "3 9",
			[]record.Outcome{record.Limited, record.Limited}},
		{"an unknown device beside", "", "mlx5_0:handles=1 rxe0:handles=1", "1 max", []record.Outcome{record.Unenforced,
			record.Limited}},
		{"part of a name", "", "rxe:handles=1", "", []record.Outcome{record.Unenforced}},
	} {
		for version, k := range map[string]*kernel{"v2": v2Kernel(t), "v1": v1Kernel(t)} {
			const at = "/pods/web rxe0"
			if tt.before != "" {
				k.max[at] = tt.before
			}
			limits := parseLimits(t, tt.limits)
			results, err := SetLimits(k, containerPID, limits, args.Clamp)
			var outcomes []record.Outcome
			for i, r := range results {
				outcomes = append(outcomes, r.Outcome)
				if r.Device != limits[i].IBDev || r.Want != limits[i].Want || r.Message == "" {
					t.Errorf("%s, %s: result %+v", tt.name, version, r)
				}
			}
			if err != nil || k.max[at] != tt.after || !reflect.DeepEqual(outcomes, tt.outcomes) {
				t.Errorf("%s, %s: rdma.max %q, outcomes %v, %v; want %q, %v", tt.name, version, k.max[at], outcomes, err, tt.after,
					tt.outcomes)
			}
			test.LessEq(t, 1, len(k.max),
				test.Sprintf("%s, %s: others have limits too: %v", tt.name, version, k.max))
			last := results[len(results)-1]
			if last.After != nil && *last.After != k.limit("/pods/web", "rxe0") {
				t.Errorf("%s, %s: the result says %v after", tt.name, version, last.After)
			}
			again, err := SetLimits(k, containerPID, limits, args.Fail)
			for _, r := range again {
				if r.Outcome == record.Limited || r.Outcome == record.Unenforced && err == nil {
					t.Errorf("%s, %s: the second run says %+v, %v", tt.name, version, r, err)
				}
			}
		}
	}
}

// TestUnset: why limits cannot be set, and what each policy makes of it.
func TestUnset(t *testing.T) {
	const max = "/sys/fs/cgroup/pods/web/rdma.max"
	for _, tt := range []struct {
		name    string
		change  func(*kernel)
		outcome record.Outcome
		message string
	}{
		{"no controller in the kernel", func(k *kernel) { k.devices = nil }, record.Unenforced,
			"no rdma controller (CONFIG_CGROUP_RDMA)"},
		{"no cgroups at all", func(k *kernel) { k.proc["/proc/4242/cgroup"] = "" }, record.Unenforced,
			"the kernel has no cgroup with the rdma controller"},
		{"v1 without the hierarchy", func(k *kernel) { k.proc["/proc/4242/cgroup"] = "2:cpu,cpuacct:/x\n" },
			record.Unenforced,
			"the kernel has no cgroup with the rdma controller"},
		{"unknown device", func(k *kernel) { k.devices = []string{"siw0"} }, record.Unenforced,
			"the rdma controller does not know the device"},
		{"with the runtime", func(k *kernel) { k.proc["/proc/4242/cgroup"] = "0::/runtime\n" }, record.Unenforced,
			`it shares "/runtime" with its runtime`},
		{"above the runtime", func(k *kernel) { k.proc["/proc/self/cgroup"] = "0::/pods/web/x\n" }, record.Unenforced,
			`it shares "/pods/web" with its runtime`},
		{"in the root", func(k *kernel) { k.proc["/proc/4242/cgroup"] = "0::/\n" }, record.Unenforced,
			"no cgroup of its own"},
		{"outside of the namespace", func(k *kernel) { k.proc["/proc/4242/cgroup"] = "0::/../web\n" }, record.Unenforced,
			"no mounted cgroup file system has the container's cgroup"},
		{"not mounted", func(k *kernel) { k.mount = "/mnt/cgroup" }, record.Unenforced,
			"no mounted cgroup file system has the container's cgroup"},
		{"another process's", func(k *kernel) { k.procs["/pods/web"] = []int{42420, 424} }, record.Unenforced,
			"no mounted cgroup file system"},
		{"processes on the way", func(k *kernel) { k.enabled = map[string]bool{"": true}; k.procs["/pods"] = []int{9} },
			record.Unenforced,
			"/sys/fs/cgroup/pods/cgroup.subtree_control: device or resource busy: this cgroup has processes"},
		{"not the hook's to enable", func(k *kernel) {
			k.enabled = map[string]bool{}
			k.deny = map[string]error{"/sys/fs/cgroup/cgroup.subtree_control": unix.EACCES}
		}, record.Unenforced, "permission denied: only root can enable it"},
		{"read-only", func(k *kernel) { k.deny = map[string]error{max: unix.EROFS} }, record.Denied, "read-only file system"},
		{"not permitted", func(k *kernel) { k.deny = map[string]error{max: unix.EACCES} }, record.Denied,
			`write "rxe0 hca_handle=4 hca_object=100" to ` + max + ": permission denied"},
		{"broken", func(k *kernel) { k.deny = map[string]error{max: unix.EIO} }, record.Failed, "input/output error"},
		{"device gone meanwhile", func(k *kernel) { k.deny = map[string]error{max: unix.EINVAL} }, record.Failed,
			"invalid argument"},
		{"process gone", func(k *kernel) { delete(k.proc, "/proc/4242/cgroup") }, record.Failed,
			"read /proc/4242/cgroup: the process is gone"},
		{"text of another kernel", func(k *kernel) { k.proc[max] = "rxe0 hca_handle=4\n" }, record.Failed,
			`parse "rxe0 hca_handle=4"`},
		{"the kernel does not take it", func(k *kernel) { k.proc[max] = "rxe0 hca_handle=max hca_object=max\n" },
			record.Failed,
			"the limit is handles max, objects max"},
	} {
		for _, policy := range []args.OnDenied{args.Clamp, args.Fail, args.Ignore} {
			k := v2Kernel(t)
			tt.change(k)
			results, err := SetLimits(k, containerPID, parseLimits(t, "rxe0:handles=4,objects=100"), policy)
			wantErr := tt.outcome == record.Failed || policy == args.Fail
			if len(results) != 1 || results[0].Outcome != tt.outcome || !strings.Contains(results[0].Message, tt.message) ||
				(err != nil) != wantErr {
				t.Errorf("%s, %s: %+v, %v; want %s with %q", tt.name, policy, results, err, tt.outcome, tt.message)
			}
			test.Eq(t, (tt.outcome != record.Failed && policy == args.Fail), errors.Is(err, ErrDenied),
				test.Sprintf("%s, %s: error %v", tt.name, policy, err))
			if _, lies := k.proc[max]; len(k.max) > 0 && !lies {
				t.Errorf("%s, %s: a limit is set: %s", tt.name, policy, k.limits())
			}
		}
	}
}

// The controller is enabled from the root down, not in the container's cgroup itself,
// and only where it is not.
func TestEnable(t *testing.T) {
	const root = "/sys/fs/cgroup"
	for name, tt := range map[string]struct {
		enabled map[string]bool
		writes  []string
	}{
		"everywhere": {map[string]bool{"": true, "/pods": true}, nil},
		"nowhere": {map[string]bool{}, []string{root + "/cgroup.subtree_control +rdma",
			root + "/pods/cgroup.subtree_control +rdma"}},
		"at the top": {map[string]bool{"": true}, []string{root + "/pods/cgroup.subtree_control +rdma"}},
	} {
		k := v2Kernel(t)
		k.enabled = tt.enabled
		results, err := SetLimits(k, containerPID, parseLimits(t, "rxe0:handles=4,objects=100"), args.Fail)
		if err != nil || results[0].Outcome != record.Limited {
			t.Fatalf("%s: %+v, %v", name, results, err)
		}
		want := append(tt.writes, root+"/pods/web/rdma.max rxe0 hca_handle=4 hca_object=100")
		test.True(t, reflect.DeepEqual(k.writes, want), test.Sprintf("%s: writes %q, want %q", name, k.writes, want))
	}
}

// Places of cgroup file systems: the usual ones, and those that only mountinfo names.
func TestFindCgroup(t *testing.T) {
	for name, tt := range map[string]struct {
		mount, mountinfo, membership string
		v1                           bool
	}{
		"v2":     {mount: "/sys/fs/cgroup"},
		"hybrid": {mount: "/sys/fs/cgroup/unified", membership: "3:memory:/y\n1:name=systemd:/x\n0::/pods/web\n"},
		"v1":     {mount: "/sys/fs/cgroup/rdma", v1: true},
		"v1 with another controller": {mount: "/sys/fs/cgroup/misc,rdma", v1: true,
			membership: "9:misc,rdma:/pods/web\n0::/\n",
			mountinfo:  "40 32 0:36 / /sys/fs/cgroup/misc,rdma rw,nosuid shared:18 - cgroup cgroup rw,misc,rdma\n"},
		"elsewhere": {mount: "/mnt/a b", mountinfo: "1 2 0:5 / / rw - ext4 /dev/vda rw\n29 23 0:26 / /mnt/a\\040b rw - " +
			"cgroup2 none rw\n"},
		"a part of it": {mount: "/sys/fs/cgroup", membership: "0::/docker/1/pods/web\n",
			mountinfo: "29 23 0:26 /docker/2 /other ro - cgroup2 cgroup rw\n29 23 0:26 /docker/1 /sys/fs/cgroup rw shared:4 " +
				"master:1 - cgroup2 cgroup rw\n"},
		"the part below": {mount: "/pods", membership: "0::/docker/1/pods/web\n",
			mountinfo: "29 23 0:26 /docker/1/pods /pods rw - cgroup2 cgroup rw\n"},
	} {
		k := v2Kernel(t)
		if tt.v1 {
			k = v1Kernel(t)
		}
		k.mount = tt.mount
		k.proc["/proc/self/mountinfo"] = tt.mountinfo
		if tt.membership != "" {
			k.proc["/proc/4242/cgroup"] = tt.membership
		}
		if tt.mount == "/pods" {
			k.procs["/web"] = k.procs["/pods/web"]
		}
		c, err := findCgroup(k, containerPID)
		below := strings.TrimPrefix("/pods/web", map[bool]string{true: "/pods"}[tt.mount == "/pods"])
		if err != nil || c != (cgroup{tt.mount, below, !tt.v1}) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// Real files: nothing is made, all of a file is read and replaced, errors are those of
// the system calls.
func TestHostFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rdma.max")
	f := HostFiles{}
	if _, err := f.Read(path); err != unix.ENOENT {
		t.Errorf("read a file that is not there: %v", err)
	}
	if err := f.Write(path, "x"); err != unix.ENOENT {
		t.Errorf("write a file that is not there: %v", err)
	}
	for _, text := range []string{strings.Repeat("0123456789abcdef", 5000), "short", ""} {
		must.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
		must.NoError(t, f.Write(path, text))
		if got, err := f.Read(path); err != nil || got != text {
			t.Errorf("%d of %d bytes read back, %v", len(got), len(text), err)
		}
	}
	if _, err := f.Read(filepath.Dir(path)); err != unix.EISDIR {
		t.Errorf("read a directory: %v", err)
	}
	if _, err := f.Read("/dev/zero"); err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Errorf("read without end: %v", err)
	}
}

func TestRunLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		args, state string
		change      func(*kernel)
		code        int
		stderr      []string // each is in it; none: silence
		after       string
	}{
		"runc": {"--limit rxe0:handles=4", runcState, nil, ExitOK,
			[]string{"limit of rxe0 set from handles max, objects max to handles 4, objects max\n"}, "4 max"},
		"crun": {"--limit rxe0:handles=4", crunState, nil, ExitOK, []string{"set from"}, "4 max"},
		"with memlock": {"--memlock 4Mi --limit rxe0:handles=4", runcState, nil, ExitOK,
			[]string{"raised locked-memory", "limit of rxe0 set"}, "4 max"},
		"stopped": {"--limit rxe0:handles=4", `{"status":"stopped"}`, nil, ExitOK, []string{"nothing to do"}, ""},
		"accounting": {"--limit rxe0:handles=4", runcState, func(k *kernel) { k.devices = nil }, ExitOK,
			[]string{"limit rxe0 to handles 4: not possible here, so it is accounting only"}, ""},
		"not accounting": {"--limit rxe0:handles=4 --on-denied fail", runcState, func(k *kernel) { k.devices = nil },
			ExitDenied, []string{"accounting only"}, ""},
		"quiet": {"--limit rxe0:handles=4 --on-denied ignore", runcState, func(k *kernel) { k.devices = nil },
			ExitOK, nil, ""},
		"gone": {"--limit rxe0:handles=4", runcState, func(k *kernel) { clear(k.proc) }, ExitOK,
			[]string{"the process is gone"}, ""},
		"gone, fail": {"--limit rxe0:handles=4 --on-denied fail", runcState, func(k *kernel) { clear(k.proc) },
			ExitProcess, []string{"the process is gone"}, ""},
		"bad value": {"--limit rxe0:handles=0", runcState, nil, ExitUsage,
			[]string{`flag --limit: parse limit "handles=0"`}, ""},
	} {
		k := v2Kernel(t)
		if tt.change != nil {
			tt.change(k)
		}
		fd, w := pipe(t)
		w.WriteString(tt.state)
		w.Close()
		var talk strings.Builder
		code := Run(strings.Fields(tt.args), "v9", IO{Stdin: fd, Stdout: &talk, Stderr: &talk, Files: k,
			Open: func(int) (Process, error) { return low(), nil }})
		if code != tt.code || k.max["/pods/web rxe0"] != tt.after || (talk.Len() > 0) != (len(tt.stderr) > 0) {
			t.Errorf("%s: code %d, limits %q, %q", name, code, k.limits(), &talk)
		}
		for _, want := range tt.stderr {
			test.StrContains(t, talk.String(), want, test.Sprintf("%s: %q lacks", name, &talk))
		}
	}
}

// The report of a hook with limits only says so, and stands beside that of another
// hook of the container.
func TestRunReportsLimits(t *testing.T) {
	dir := t.TempDir()
	for _, args := range []string{"--memlock 4Mi", "--limit siw0:objects=9",
		"--limit rxe0:handles=4 --limit mlx5_0:handles=1"} {
		fd, w := pipe(t)
		w.WriteString(runcState)
		w.Close()
		var talk strings.Builder
		Run(append(strings.Fields(args), "--report", dir), "v9",
			IO{Stdin: fd, Stdout: &talk, Stderr: &talk, Files: v2Kernel(t),
				Open: func(int) (Process, error) { return low(), nil }})
	}
	if r := readReport(t, dir+"/web.json"); r.Outcome != record.Raised || r.Limits != nil {
		t.Errorf("the report of a hook without limits: %+v", r)
	}
	if r := readReport(t, dir+"/web.siw0.json"); len(r.Limits) != 1 || *r.Limits[0].After != (counts(args.NoLimit, 9)) {
		t.Errorf("the report of another hook: %+v", r)
	}
	r := readReport(t, dir+"/web.rxe0.json")
	if r.Outcome != record.Skipped || len(r.Limits) != 2 || r.Limits[0].Outcome != record.Limited ||
		r.Limits[1].Outcome != record.Unenforced {
		t.Errorf("the report of the hook with limits: %+v", r)
	}
}

// slowFiles block until the test ends.
type slowFiles struct{ end chan struct{} }

func (f slowFiles) Read(string) (string, error) { <-f.end; return "", unix.EIO }
func (f slowFiles) Write(string, string) error  { <-f.end; return unix.EIO }

// A kernel that is busy with another cgroup must not hold up the container.
func TestLimitsAreBoundedInTime(t *testing.T) {
	f := slowFiles{make(chan struct{})}
	defer close(f.end)
	opts := args.Options{Limits: parseLimits(t, "rxe0:handles=4 rxe1:handles=4"), OnDenied: args.Clamp}
	results, err := setLimitsBy(time.Now().Add(20*time.Millisecond), f, containerPID, opts)
	if !errors.Is(err, os.ErrDeadlineExceeded) || len(results) != 2 || results[1].Outcome != record.Failed ||
		!strings.Contains(results[1].Message, "limit rxe1 to handles 4") {
		t.Errorf("%+v, %v; want a timeout", results, err)
	}
}
