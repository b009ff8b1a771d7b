package hook

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/thread"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestMain lets the test binary play the process whose limit is raised: it waits
// for the end of its standard input.
func TestMain(m *testing.M) {
	if os.Getenv("HOOK_TEST_CHILD") == "1" {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child starts a process with a soft limit of 64 KiB.
func child(t *testing.T) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOOK_TEST_CHILD=1")
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.NoError(t, err)
	end = func() { stdin.Close() }
	t.Cleanup(func() { end(); cmd.Wait() })
	limit := memlock(t, cmd.Process.Pid)
	limit.Cur = uint64(min(k64, args.Size(limit.Max)))
	must.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_MEMLOCK, &limit, nil))
	return cmd, end
}

// memlock asks the kernel, without the code under test.
func memlock(t *testing.T, pid int) (r unix.Rlimit) {
	t.Helper()
	must.NoError(t, unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, nil, &r))
	return r
}

// hasSysResource reads the effective capabilities of this process.
func hasSysResource(t *testing.T) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "CapEff:\t")
	eff, err := strconv.ParseUint(rest[:16], 16, 64)
	must.NoError(t, err)
	return eff&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// runReal runs the hook on a real process.
func runReal(t *testing.T, pid int, args ...string) (code int, stderr string) {
	t.Helper()
	fd, w := pipe(t)
	w.WriteString(`{"id":"web","status":"creating","pid":` + itoa(pid) + `}`)
	w.Close()
	var talk strings.Builder
	code = Run(args, "v9", IO{Stdin: fd, Stdout: io.Discard, Stderr: &talk, Open: OpenProcess})
	return code, talk.String()
}

func TestRaisesRealProcess(t *testing.T) {
	cmd, _ := child(t)
	pid := cmd.Process.Pid
	before := memlock(t, pid)
	if before.Max < uint64(mib4) {
		t.Skipf("the hard limit here is %d bytes; at least 4 MiB is needed", before.Max)
	}
	for _, want := range []string{"raised locked-memory limit from 64 KiB", "already 1 MiB"} {
		code, stderr := runReal(t, pid, "--memlock", "1Mi", "--on-denied", "fail")
		after := memlock(t, pid)
		if code != ExitOK || !strings.Contains(stderr, want) || after.Cur != 1<<20 || after.Max != before.Max {
			t.Fatalf("code %d, %q, limit %+v; want %q", code, stderr, after, want)
		}
	}
}

func TestRaisesRealProcessToUnlimited(t *testing.T) {
	if !hasSysResource(t) {
		t.Skip("no CAP_SYS_RESOURCE here")
	}
	cmd, _ := child(t)
	code, stderr := runReal(t, cmd.Process.Pid, "--memlock", "unlimited", "--on-denied", "fail")
	after := memlock(t, cmd.Process.Pid)
	if code != ExitOK || after.Cur != uint64(args.Unlimited) || after.Max != uint64(args.Unlimited) {
		t.Fatalf("code %d, %q, limit %+v", code, stderr, after)
	}
}

func TestClampsRealProcess(t *testing.T) {
	if hasSysResource(t) {
		t.Skip("CAP_SYS_RESOURCE is there: nothing is denied")
	}
	cmd, _ := child(t)
	pid := cmd.Process.Pid
	hard := memlock(t, pid).Max
	if hard == uint64(args.Unlimited) {
		t.Skip("the hard limit here is unlimited: nothing is denied")
	}
	for _, tt := range []struct {
		policy, stderr string
		code           int
		soft           uint64
	}{
		{"fail", "need CAP_SYS_RESOURCE", ExitDenied, uint64(k64)},
		{"ignore", "", ExitOK, uint64(k64)},
		{"clamp", "raised the soft limit from 64 KiB to the hard limit", ExitOK, hard},
		{"clamp", "already equals the hard limit", ExitOK, hard},
	} {
		code, stderr := runReal(t, pid, "--memlock", "unlimited", "--on-denied", tt.policy)
		after := memlock(t, pid)
		if code != tt.code || !strings.Contains(stderr, tt.stderr) || after.Cur != tt.soft || after.Max != hard {
			t.Errorf("%s: code %d, %q, limit %+v; want %d, %q, soft %d", tt.policy, code, stderr, after, tt.code, tt.stderr,
				tt.soft)
		}
	}
}

func TestProcessGone(t *testing.T) {
	cmd, end := child(t)
	pid := cmd.Process.Pid
	opened, err := OpenProcess(pid)
	must.NoError(t, err)
	end()
	// A zombie first: exited, but its ID is not free yet.
	must.NoError(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	zombie, err := OpenProcess(pid)
	if err == nil {
		_, err = zombie.Limit()
	}
	test.ErrorIs(t, err, ErrGone, test.Sprint("limit of a zombie"))
	cmd.Wait()
	if _, err := opened.Limit(); !errors.Is(err, ErrGone) {
		t.Errorf("limit of a reaped process: %v, want ErrGone", err)
	}
	test.ErrorIs(t, opened.SetLimit(limits(1, 1)), ErrGone, test.Sprint("set limit of a reaped process"))
	if _, err := OpenProcess(pid); !errors.Is(err, ErrGone) {
		t.Errorf("open a reaped process: %v, want ErrGone", err)
	}
}

// The kernel gives an ID away again. What a handle sees must be the process it
// was opened for, not the one that has its ID now.
func TestProcessIDReused(t *testing.T) {
	old, end := child(t)
	other, _ := child(t)
	p, err := OpenProcess(old.Process.Pid)
	must.NoError(t, err)
	end()
	old.Wait()
	p.(*hostProcess).pid = other.Process.Pid // as if the kernel had reused it
	if _, err := p.Limit(); !errors.Is(err, ErrGone) {
		t.Errorf("limit of a reused ID: %v, want ErrGone", err)
	}
}

func TestOpenThread(t *testing.T) {
	tids := make(chan int)
	stop := make(chan struct{})
	defer close(stop)
	go thread.Do(func() { // which is never the main one
		tids <- syscall.Gettid()
		<-stop
	})
	if _, err := OpenProcess(<-tids); err == nil || !strings.Contains(err.Error(), "a thread, not a process") {
		t.Errorf("OpenProcess of a thread: %v", err)
	}
}

// Without a pidfd (an old kernel, a seccomp filter) prlimit alone must do.
func TestProcessWithoutPidfd(t *testing.T) {
	cmd, _ := child(t)
	p := &hostProcess{pid: cmd.Process.Pid, pidfd: -1}
	limit, err := p.Limit()
	if err != nil || limit.Soft != k64 {
		t.Errorf("limit %v, %v", limit, err)
	}
	test.NoError(t, p.SetLimit(limit))
}

// TestInHostNetwork: a process of the host's network namespace, one of another, and none.
func TestInHostNetwork(t *testing.T) {
	if got := inHostNetwork(os.Getpid()); got == nil || !*got {
		t.Errorf("of this process: %v, want true", got)
	}
	test.Nil(t, inHostNetwork(1<<30), test.Sprint("of no process"))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOOK_TEST_CHILD=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	if err := cmd.Start(); err != nil {
		needs.Missing(t, fmt.Errorf("make a network namespace, as root: %w", err))
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	if got := inHostNetwork(cmd.Process.Pid); got == nil || *got {
		t.Errorf("of a process in a network namespace of its own: %v, want false", got)
	}
}
