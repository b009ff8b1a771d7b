package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build makes a program of this directory as releases are made: static and
// stripped. pkg is "." or a directory below testdata.
func build(tb testing.TB, pkg string) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v0.0.0-test", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}

func TestVersion(t *testing.T) {
	out, err := exec.Command(build(t, "."), "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "rdma-hook v0.0.0-test go1.") {
		t.Errorf("--version: %q, %v", out, err)
	}
}

// The exit code of the process is that of Run, and the talk goes to stderr.
func TestExitCode(t *testing.T) {
	cmd := exec.Command(build(t, "."), "--memlock", "1Mi")
	cmd.Stdin = strings.NewReader("no state")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 3 || stdout.String() != "" ||
		!strings.HasPrefix(stderr.String(), "rdma-hook: parse OCI state: ") {
		t.Errorf("%v, stdout %q, stderr %q; want exit code 3", err, stdout.String(), stderr.String())
	}
}
