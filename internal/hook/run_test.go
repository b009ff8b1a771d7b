package hook

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
)

// runOn runs the hook on a process with the state on stdin.
func runOn(t *testing.T, p Process, state string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	fd, w := pipe(t)
	w.WriteString(state)
	w.Close()
	var out, talk strings.Builder
	code = Run(args, "v9", IO{Stdin: fd, Stdout: &out, Stderr: &talk, Open: func(int) (Process, error) {
		if p == nil {
			return nil, wrap("open process 4242", ErrGone)
		}
		return p, nil
	}})
	return code, out.String(), talk.String()
}

func low() *fakeProcess { return &fakeProcess{limit: limits(k64, mib8)} }

func TestRun(t *testing.T) {
	ready := func(s string) string { return strings.Replace(runcState, `"creating"`, s, 1) }
	pid := func(s string) string { return strings.Replace(runcState, "4242", s, 1) }
	foreign := &fakeProcess{getErr: unix.EPERM}
	broken := &fakeProcess{getErr: unix.EIO}
	for _, tt := range []struct {
		name, args, state string
		process           Process
		code              int
		stderr            string // is in it; "" stands for silence
		raised            bool
	}{
		{"runc", "--memlock 4Mi", runcState, low(), ExitOK, "raised locked-memory limit", true},
		{"crun", "--memlock 4Mi", crunState, low(), ExitOK, "raised", true},
		{"clamped", "--memlock unlimited", runcState, low(), ExitOK, "need CAP_SYS_RESOURCE to raise the hard limit of 8 MiB",
			true},
		{"denied", "--memlock unlimited --on-denied fail", runcState, low(), ExitDenied, "need CAP_SYS_RESOURCE", false},
		{"ignored", "--memlock unlimited --on-denied ignore", runcState, low(), ExitOK, "", false},
		{"foreign, clamp", "--memlock 1Mi", runcState, foreign, ExitOK, "cannot be read", false},
		{"foreign, fail", "--memlock 1Mi --on-denied fail", runcState, foreign, ExitDenied, "cannot be read", false},
		{"gone, clamp", "--memlock 4Mi", runcState, nil, ExitOK, "open process 4242: the process is gone", false},
		{"gone, fail", "--memlock 4Mi --on-denied fail", runcState, nil, ExitProcess, "the process is gone", false},
		{"broken, ignore", "--memlock 4Mi --on-denied ignore", runcState, broken, ExitOK, "input/output error", false},
		{"broken, fail", "--memlock 4Mi --on-denied fail", runcState, broken, ExitProcess, "input/output error", false},
		{"unknown flag", "--shiny 1 --memlock 4Mi", runcState, low(), ExitOK, `unknown flag "--shiny"`, true},
		{"no flag", "", runcState, low(), ExitOK, "nothing to do: no --memlock", false},
		{"bad value", "--memlock 4XB", runcState, low(), ExitUsage, `parse size "4XB"`, false},
		{"unknown status", "--memlock 4Mi", ready(`"paused"`), low(), ExitOK, `status "paused" is neither`, true},
		{"no status", "--memlock 4Mi", ready(`null`), low(), ExitOK, `status "" is neither`, true},
		{"stopped", "--memlock 4Mi", ready(`"stopped"`), low(), ExitOK, `nothing to do: the status is "stopped"`, false},
		{"stopped without pid", "--memlock 4Mi", `{"status":"stopped"}`, low(), ExitOK, "nothing to do", false},
		{"pid 0", "--memlock 4Mi", pid("0"), low(), ExitOK, "its pid is 0", false},
		{"pid -7", "--memlock 4Mi", pid("-7"), low(), ExitOK, "its pid is -7", false},
		{"no pid", "--memlock 4Mi", `{"status":"creating"}`, low(), ExitState, `it has no "pid"`, false},
		{"huge pid", "--memlock 4Mi", pid("4294967297"), low(), ExitState, "larger than any process ID", false},
		{"no JSON", "--memlock 4Mi", "hello", low(), ExitState, "invalid character", false},
		{"no stdin", "--memlock 4Mi", "", low(), ExitState, "it is empty", false},
	} {
		code, stdout, stderr := runOn(t, tt.process, tt.state, strings.Fields(tt.args)...)
		p, _ := tt.process.(*fakeProcess)
		raised := p != nil && p.limit.Soft > k64
		if code != tt.code || stdout != "" || raised != tt.raised ||
			!strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
			t.Errorf("%s: code %d, raised %v, stdout %q, stderr %q; want %d, %v, stderr with %q",
				tt.name, code, raised, stdout, stderr, tt.code, tt.raised, tt.stderr)
		}
	}
}

func TestRunVersionAndHelp(t *testing.T) {
	version := "rdma-hook v9 " + runtime.Version() + " linux/" + runtime.GOARCH + "\n"
	for flag, want := range map[string]string{"--version": version, "--help": Usage(), "-h": Usage()} {
		code, stdout, stderr := runOn(t, low(), "", flag)
		if code != ExitOK || stdout != want || stderr != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q", flag, code, stdout, stderr)
		}
	}
}

func TestRunTimesOut(t *testing.T) {
	fd, _ := pipe(t) // the writing end stays open
	var talk strings.Builder
	code := Run([]string{"--memlock", "1Mi", "--timeout", "30ms"}, "v9", IO{Stdin: fd, Stdout: &talk, Stderr: &talk})
	if code != ExitTimeout || !strings.Contains(talk.String(), "no complete OCI state arrived in time") {
		t.Errorf("code %d, %q", code, talk.String())
	}
}

func TestRunReports(t *testing.T) {
	dir := t.TempDir()
	p := low()
	for _, tt := range []struct {
		args    string
		outcome record.Outcome
		message string
		after   *record.Rlimit
	}{
		{"--memlock 4Mi --odd", record.Raised, "raised", new(limits(mib4, mib8))},
		{"--memlock 4Mi", record.Already, "already", new(limits(mib4, mib8))},
		{"--memlock unlimited --on-denied fail", record.Denied, "need CAP_SYS_RESOURCE", new(limits(mib4, mib8))},
		{"--memlock unlimited", record.Clamped, "need CAP_SYS_RESOURCE", new(limits(mib8, mib8))},
		{"", record.Skipped, "no --memlock", nil},
	} {
		runOn(t, p, runcState, append(strings.Fields(tt.args), "--report", dir)...)
		r := readReport(t, dir+"/web.json")
		if r.Outcome != tt.outcome || !strings.Contains(r.Message, tt.message) || r.ID != "web" || r.PID != 4242 ||
			r.HookVersion != "v9" || (r.After == nil) != (tt.after == nil) || r.After != nil && *r.After != *tt.after {
			t.Errorf("%s: report %+v", tt.args, r)
		}
		if age := time.Since(r.Time); age < -time.Second || age > time.Minute {
			t.Errorf("%s: report is %s old", tt.args, age)
		}
		test.Eq(t, (len(r.Warnings) == 1), strings.Contains(tt.args, "--odd"),
			test.Sprintf("%s: warnings %q", tt.args, r.Warnings))
	}
}

func readReport(t *testing.T, path string) (r record.Report) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	must.NoError(t, err)
	return r
}

// A report that cannot be written never fails the container.
func TestRunReportFailure(t *testing.T) {
	for name, tt := range map[string]struct{ dir, state string }{
		"missing directory": {t.TempDir() + "/missing", runcState},
		"path traversal":    {t.TempDir(), strings.Replace(runcState, `"web"`, `"../web"`, 1)},
		"no ID":             {t.TempDir(), `{"pid":4242,"status":"created"}`},
	} {
		p := low()
		code, _, stderr := runOn(t, p, tt.state, "--memlock", "4Mi", "--report", tt.dir)
		if code != ExitOK || p.limit.Soft != mib4 || !strings.Contains(stderr, "the container is not affected") {
			t.Errorf("%s: code %d, limit %v, %q", name, code, p.limit, stderr)
		}
	}
}

// A directory on a file system that hangs: a FIFO in the place of the temporary
// file blocks open(2) in the same way.
func TestReportIsBoundedInTime(t *testing.T) {
	dir := t.TempDir()
	r := fullReport("web")
	r.Limits, r.Claim = nil, ""
	fifo := dir + "/.web." + itoa(os.Getpid()) + ".tmp"
	must.NoError(t, unix.Mkfifo(fifo, 0o600))
	err := reportBy(time.Now().Add(30*time.Millisecond), dir, r, WriteReport)
	test.ErrorIs(t, err, os.ErrDeadlineExceeded)
	reader, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0) // releases the writer
	must.NoError(t, err)
	defer reader.Close()
	for err == nil { // until the late writer is done with the directory
		_, err = os.Lstat(fifo)
	}
}

// The pod is the one that the kubelet has made the cgroup for, whatever the annotations say.
func TestRunPodOfCgroup(t *testing.T) {
	const uid = "0f1e2d3c-0000-4000-8000-00000000000a"
	for cgroup, want := range map[string]string{
		"0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-web.scope\n": uid,
		"0::/machine.slice/libpod-web.scope\n": "u", // of the annotations
	} {
		dir := t.TempDir()
		fd, w := pipe(t)
		w.WriteString(runcState)
		w.Close()
		var talk strings.Builder
		files := textFiles{"/proc/4242/cgroup": cgroup}
		if code := Run([]string{"--claim", "x", "--report", dir}, "v9",
			IO{Stdin: fd, Stdout: &talk, Stderr: &talk, Files: files}); code != ExitOK {
			t.Fatalf("code %d, %s", code, &talk)
		}
		test.Eq(t, want, readReport(t, dir+"/web.x.json").PodUID, test.Sprintf("%q: pod", cgroup))
	}
}

// textFiles are files that can be read only.
type textFiles map[string]string

func (f textFiles) Read(path string) (string, error) {
	text, ok := f[path]
	if !ok {
		return "", unix.ENOENT
	}
	return text, nil
}

func (textFiles) Write(string, string) error { return unix.EROFS }
