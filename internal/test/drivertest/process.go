package drivertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/checkout"
)

// built is the directory of the driver's program, "" if build was not called.
var built string

var build = sync.OnceValues(func() (string, error) {
	root, err := checkout.Root()
	if err != nil {
		return "", err
	}
	if built, err = os.MkdirTemp("", "rdma-bin-"); err != nil {
		return "", err
	}
	path := filepath.Join(built, "dra-driver")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s", "-tags", "grpcnotrace", "-o", path,
		"./cmd/dra-driver")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // this and the tag as the Makefile has them
	cmd.Dir = root                                  // tests of other modules have other dependencies
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the driver: %w\n%s", err, out)
	}
	return path, nil
})

// Binary builds the driver, once for a process, and returns its path. The program has no race detector, so Binary skips
// the test in a short run with the detector.
func Binary(t testing.TB) string {
	t.Helper()
	if raceDetector && testing.Short() {
		t.Skip("the driver's program has no race detector: run this test without -race, or without -short")
	}
	path, err := build()
	must.NoError(t, err)
	return path
}

// RemoveBinary removes what Binary built, if anything. TestMain calls it at its end.
func RemoveBinary() error { return os.RemoveAll(built) }

// Process is a driver that runs as a program.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	output Log
	ended  chan struct{}
}

// StartProcess starts the driver with those arguments. It is killed at the end of
// the test, if it still runs; its output is printed if the test failed.
func StartProcess(t testing.TB, args ...string) *Process {
	t.Helper()
	return StartProgram(t, append([]string{Binary(t)}, args...)...)
}

// StartProgram is StartProcess for a command that runs the driver, such as a tracer.
func StartProgram(t testing.TB, command ...string) *Process {
	t.Helper()
	p := Launch(t, command...)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("driver %d said:\n%s", p.PID(), p.Output())
		}
	})
	return p
}

// Launch is StartProgram, but does not print the output of the driver. It is for a test that
// starts many drivers, because not every driver has something to say.
func Launch(t testing.TB, command ...string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	must.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // the exit code has it all
		close(p.ended)
	}()
	t.Cleanup(p.Kill)
	return p
}

// PID is the driver's process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the driver at once, with kill -9, if it has not ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// Terminate asks the driver to stop, and returns its exit code.
func (p *Process) Terminate() int {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait()
}

// Suspend stops the driver in its tracks, as a process that hangs.
func (p *Process) Suspend() {
	p.t.Helper()
	p.Signal(syscall.SIGSTOP)
}

// Signal sends a signal to the driver.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	must.NoError(p.t, p.cmd.Process.Signal(s))
}

// Wait waits for the end of the driver, and returns its exit code, -1 for a signal.
func (p *Process) Wait() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// HasEnded reports whether the driver has ended.
func (p *Process) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Output returns what the driver has said so far.
func (p *Process) Output() string { return p.output.String() }
