package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// fakeMax is rdma.max of the cgroup that fakeCgroup makes, noLimits what the kernel has
// in it at first.
const (
	fakeMax  = "/sys/fs/cgroup/pods/web/rdma.max"
	noLimits = "rxe0 hca_handle=max hca_object=max \n"
)

// fakeCgroup puts this process, for programs started by the calling goroutine, into a
// cgroup v2 with the rdma controller, which is a directory on a tmpfs: many test
// machines have no such kernel. The thread keeps its mounts to itself and ends with
// the goroutine. Real cgroups are for the virtual machine.
func fakeCgroup(tb testing.TB) {
	tb.Helper()
	needs.Root(tb, "a mount namespace")
	runtime.LockOSThread() // never unlocked
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		needs.Missing(tb, fmt.Errorf("make a mount namespace: %w", err))
	}
	membership := filepath.Join(tb.TempDir(), "cgroup")
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"keep mounts private", func() error { return unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount the cgroups", func() error { return unix.Mount("none", "/sys/fs/cgroup", "tmpfs", 0, "") }},
		{"make the cgroup", func() error { return os.MkdirAll(filepath.Dir(fakeMax), 0o755) }},
		{"put the process into it", func() error {
			return os.WriteFile(filepath.Dir(fakeMax)+"/cgroup.procs", fmt.Appendln(nil, os.Getpid()), 0o644)
		}},
		{"write its cgroup", func() error { return os.WriteFile(membership, []byte("0::/pods/web\n"), 0o644) }},
		{"show its cgroup", func() error {
			return unix.Mount(membership, fmt.Sprintf("/proc/%d/cgroup", os.Getpid()), "", unix.MS_BIND, "")
		}},
	} {
		if err := step.do(); err != nil {
			tb.Fatalf("%s: %v", step.what, err)
		}
	}
	writeMax(tb, noLimits)
}

func writeMax(tb testing.TB, text string) {
	tb.Helper()
	if err := os.WriteFile(fakeMax, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}

// The program finds the cgroup of the process and its files by itself.
func TestLimit(t *testing.T) {
	path := build(t, ".")
	fakeCgroup(t)
	for _, tt := range []struct {
		args, stderr, max string
		code              int
	}{
		{"--limit rxe0:handles=4", "limit of rxe0 set from handles max, objects max to handles 4, objects max",
			"rxe0 hca_handle=4 hca_object=max", 0},
		{"--limit rxe0:handles=2,objects=7", "to handles 4, objects 7", "rxe0 hca_handle=4 hca_object=7", 0},
		{"--limit rxe0:objects=5", "already handles 4, objects 7, requested objects 5", "rxe0 hca_handle=4 hca_object=7", 0},
		{"--limit mlx5_0:objects=5", "accounting only: the rdma controller does not know the device",
			"rxe0 hca_handle=4 hca_object=7", 0},
		{"--limit mlx5_0:objects=5 --on-denied fail", "accounting only", "rxe0 hca_handle=4 hca_object=7", 1},
	} {
		cmd := exec.Command(path, strings.Fields(tt.args)...)
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"id":"web","status":"creating","pid":%d}`, os.Getpid()))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		err := cmd.Run()
		max, _ := os.ReadFile(fakeMax)
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(stderr.String(), tt.stderr) ||
			string(max) != tt.max {
			t.Errorf("%s: %v, %q, rdma.max %q; want %d, %q, %q", tt.args, err, &stderr, max, tt.code, tt.stderr, tt.max)
		}
	}
}
