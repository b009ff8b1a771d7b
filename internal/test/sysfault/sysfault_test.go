package sysfault_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/sysfault"
)

// TestFaults runs cp(1), and lets each of its calls on the two files fail in turn: it
// must say so, with the kernel's words, and end.
func TestFaults(t *testing.T) {
	s := supervisor(t)
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	must.NoError(t, os.WriteFile(from, []byte("content"), 0o600))
	faults := 0
	for n := 1; ; n++ {
		shot := s.Arm(sysfault.Fault{N: n, Match: sysfault.Below(dir), Do: sysfault.Error(unix.EIO)})
		out, err := run(s, "cp", from, to)
		shot.Disarm()
		call, fired := shot.Fired()
		if !fired {
			must.NoError(t, err, must.Sprintf("without a fault: %v: %s", err, out))
			break
		}
		faults++
		if err != nil && !strings.Contains(out, "Input/output error") {
			t.Errorf("%v fails, and cp says %v: %s", call, err, out)
		}
	}
	if data, err := os.ReadFile(to); err != nil || string(data) != "content" {
		t.Errorf("the copy is %q, error %v", data, err)
	}
	test.GreaterEq(t, 4, faults,
		test.Sprintf("%d calls failed, want at least two opens, a read and a write", faults))
}

// TestLasting: a lasting fault hits all later calls, and another program is left alone
// once it is over.
func TestLasting(t *testing.T) {
	s := supervisor(t)
	file := filepath.Join(t.TempDir(), "file")
	opens := func(c sysfault.Call) bool { return c.Name == "openat" && c.Path == file && c.Write }
	shot := s.Arm(sysfault.Fault{N: 2, Match: opens, Do: sysfault.Error(unix.ENOSPC), Lasting: true})
	out, err := run(s, "sh", "-c", "for i in 1 2 3; do echo $i >> "+file+"; done; true")
	if err != nil || strings.Count(out, "No space left on device") != 2 {
		t.Errorf("error %v, output %s", err, out)
	}
	test.Eq(t, 3, len(shot.Calls()), test.Sprintf("calls are %v, want 3", shot.Calls()))
	shot.Disarm()
	if out, err := run(s, "sh", "-c", "echo 4 >> "+file); err != nil {
		t.Errorf("error %v, output %s", err, out)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "1\n4\n" {
		t.Errorf("file is %q, error %v", data, err)
	}
}

// TestKilledWhileStopped: a program that is killed in the middle of a call ends, and
// the call has not happened.
func TestKilledWhileStopped(t *testing.T) {
	s := supervisor(t)
	file := filepath.Join(t.TempDir(), "file")
	shot := s.Arm(sysfault.Fault{N: 1, Match: sysfault.Below(file), Do: sysfault.Kill})
	defer shot.Disarm()
	_, err := run(s, "touch", file)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 {
		t.Errorf("it ended with %v, want a signal", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the call happened: %v", err)
	}
}

// TestDisarmWaits: after Disarm nothing of a fault is still being done.
func TestDisarmWaits(t *testing.T) {
	s := supervisor(t)
	file := filepath.Join(t.TempDir(), "file")
	begun, done := make(chan struct{}), atomic.Bool{}
	shot := s.Arm(sysfault.Fault{N: 1, Match: sysfault.Below(file), Do: func(sysfault.Call) unix.Errno {
		close(begun)
		for !s.Idle() { // until Disarm has begun
			runtime.Gosched()
		}
		done.Store(true)
		return 0
	}})
	command := s.Command("touch", file)
	cmd := exec.Command(command[0], command[1:]...)
	must.NoError(t, cmd.Start())
	<-begun
	shot.Disarm()
	test.True(t, done.Load(), test.Sprint("Disarm has returned before the fault was done"))
	test.NoError(t, cmd.Wait())
}

// TestEnded: a fault that is being done stops one thread, and the calls of the others count until it is over.
func TestEnded(t *testing.T) {
	s := supervisor(t)
	dir := t.TempDir()
	var shot *sysfault.Shot
	armed := make(chan struct{})
	opens := func(c sysfault.Call) bool { return c.Name == "openat" && filepath.Dir(c.Path) == dir }
	shot = s.Arm(sysfault.Fault{N: 1, Match: opens, Do: func(sysfault.Call) unix.Errno {
		<-armed
		for len(shot.Calls()) < 2 {
			runtime.Gosched()
		}
		test.Eq(t, 0, shot.Ended(), test.Sprint("a fault that is being done has ended at call"))
		return 0
	}})
	close(armed)
	if out, err := run(s, "sh", "-c", "echo > "+dir+"/a & echo > "+dir+"/b; wait"); err != nil {
		t.Fatalf("error %v, output %s", err, out)
	}
	if shot.Disarm(); shot.Ended() != 2 {
		t.Errorf("the fault ended at call %d, want 2: %v", shot.Ended(), shot.Calls())
	}
}

func supervisor(t *testing.T) *sysfault.Supervisor {
	t.Helper()
	if err := sysfault.Available(); err != nil {
		needs.Missing(t, err)
	}
	return sysfault.New(t)
}

func run(s *sysfault.Supervisor, program string, args ...string) (string, error) {
	command := s.Command(program, args...)
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	return string(out), err
}
