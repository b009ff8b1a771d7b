package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// These tests start real containers with runc: Debian's packages runc and
// busybox-static, as root. crun is left to a virtual machine: it refuses hosts whose
// cgroup hierarchies are hybrid, as those of many test machines are. There the
// hook sees the status "created", and wins over an rlimit in the OCI spec.

// requirements are what containers need.
func requirements(t *testing.T) {
	t.Helper()
	needs.Root(t, "containers")
	for _, program := range []string{"runc", "busybox"} {
		needs.Program(t, program, "apt-get install runc busybox-static")
	}
}

// soft is the limit that the runtime has, in KiB as ulimit has it; containers
// inherit it. It is what older hosts have, so that the difference to any hard
// limit of the test machine shows without CAP_SYS_RESOURCE.
const soft = 64

// container is what a test says of one container.
type container struct {
	hookArgs []string // nil: no hook
	memlock  uint64   // an RLIMIT_MEMLOCK in the OCI spec, in bytes; 0: none
	command  string   // of the shell; default `ulimit -l`
}

// run starts the container in the foreground and returns what its command
// printed, and the exit code and the standard error of runc.
func (c container) run(t *testing.T, hookPath string) (stdout string, code int, stderr string) {
	t.Helper()
	cmd := runc(t.TempDir(), "run", "--bundle", c.bundle(t, hookPath), containerID(t))
	var out, talk strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("start runc: %v", err)
	}
	return strings.TrimSpace(out.String()), cmd.ProcessState.ExitCode(), talk.String()
}

// runc is a command with the soft limit, and a state directory of its own.
func runc(root string, args ...string) *exec.Cmd {
	script := `ulimit -S -l "$1" && shift && exec runc --root "$@"`
	return exec.Command("sh", append([]string{"-c", script, "sh", strconv.Itoa(soft), root}, args...)...)
}

// bundle writes what runc needs of a container.
func (c container) bundle(t *testing.T, hookPath string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	makeRootfs(t, filepath.Join(dir, "rootfs"))
	config, err := json.Marshal(c.spec(hookPath))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func containerID(t *testing.T) string {
	return fmt.Sprintf("rdma-hook-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
}

// spec is the smallest OCI spec that runs a shell as a user without privileges.
func (c container) spec(hookPath string) map[string]any {
	if c.command == "" {
		c.command = "ulimit -l"
	}
	process := map[string]any{
		"cwd":  "/",
		"args": []string{"/bin/busybox", "sh", "-c", c.command},
		"user": map[string]any{"uid": 1000, "gid": 1000},
	}
	if c.memlock > 0 {
		process["rlimits"] = []any{map[string]any{"type": "RLIMIT_MEMLOCK", "soft": c.memlock, "hard": c.memlock}}
	}
	namespaces := []any{}
	for _, kind := range []string{"pid", "mount", "ipc", "uts", "network"} {
		namespaces = append(namespaces, map[string]any{"type": kind})
	}
	spec := map[string]any{
		"ociVersion": "1.0.2",
		"process":    process,
		"root":       map[string]any{"path": "rootfs", "readonly": true},
		"mounts":     []any{map[string]any{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux":      map[string]any{"namespaces": namespaces},
	}
	if c.hookArgs != nil {
		spec["hooks"] = map[string]any{"createRuntime": []any{map[string]any{
			"path": hookPath, "args": append([]string{"rdma-hook"}, c.hookArgs...), "env": []string{"GOMAXPROCS=1"},
			"timeout": 10}}}
	}
	return spec
}

// makeRootfs puts a static busybox into an otherwise empty root file system.
func makeRootfs(t *testing.T, root string) {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin", "proc", "dev"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	src, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(filepath.Join(root, "bin", "busybox"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(dst, src)
	}
	if err == nil {
		err = dst.Close()
	}
	// The container's user is not the one of the test, whose umask may keep others out.
	for _, path := range []string{"", "bin", "proc", "dev", "bin/busybox"} {
		if err == nil {
			err = os.Chmod(filepath.Join(root, path), 0o755)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hardLimit is the one that containers inherit, as ulimit prints it, and
// what "unlimited" comes to here.
func hardLimit(t *testing.T) (bytes uint64, raised string) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < 1<<20 {
		t.Skipf("the hard limit here is %d bytes; at least 1 MiB is needed", limit.Max)
	}
	var caps [2]unix.CapUserData // version 3 of the interface has two words
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0]); err != nil {
		t.Fatal(err)
	}
	if limit.Max == unix.RLIM_INFINITY || caps[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0 {
		return limit.Max, "unlimited"
	}
	return limit.Max, strconv.FormatUint(limit.Max/1024, 10)
}

func TestRunc(t *testing.T) {
	requirements(t)
	path := build(t, ".")
	_, raised := hardLimit(t)
	unlimited := []string{"--memlock", "unlimited"}
	for _, tt := range []struct {
		name string
		container
		want string
	}{
		{"without the hook", container{}, "64"},
		{"unlimited", container{hookArgs: unlimited}, raised},
		{"a size", container{hookArgs: []string{"--memlock", "512Ki"}}, "512"},
		{"not lowered", container{hookArgs: []string{"--memlock", "4Ki"}}, "64"},
		{"children inherit it", container{hookArgs: []string{"--memlock", "512Ki"},
			command: "/bin/busybox sh -c 'ulimit -l; true'"}, "512"},
		{"unknown flag", container{hookArgs: append(unlimited, "--from-the-future", "x")}, raised},
		// runc applies process.rlimits after the createRuntime hooks.
		{"the OCI spec wins", container{hookArgs: unlimited, memlock: 128 << 10}, "128"},
		{"the OCI spec without the hook", container{memlock: 128 << 10}, "128"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, code, stderr := tt.run(t, path)
			if got != tt.want || code != 0 {
				t.Errorf("ulimit -l in the container: %q, exit code %d, want %q\n%s", got, code, tt.want, stderr)
			}
		})
	}
}

// The report holds what runc has told the hook, and what the hook has done.
func TestRuncReport(t *testing.T) {
	requirements(t)
	hard, raised := hardLimit(t)
	dir := t.TempDir()
	got, code, stderr := container{hookArgs: []string{"--memlock", "unlimited", "--report", dir}}.run(t, build(t, "."))
	if got != raised || code != 0 {
		t.Fatalf("ulimit -l: %q, exit code %d\n%s", got, code, stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, containerID(t)+".json"))
	var r record.Report
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	after := record.Rlimit{Soft: args.Size(hard), Hard: args.Size(hard)}
	outcome := record.Clamped
	if raised == "unlimited" {
		after, outcome = record.Rlimit{Soft: args.Unlimited, Hard: args.Unlimited}, record.Raised
	}
	if r.Status != "creating" || r.PID <= 0 || r.Before.Soft != soft<<10 || *r.After != after || r.Outcome != outcome {
		t.Errorf("report %s", text)
	}
}

// With --on-denied fail the container does not start, and runc says why.
func TestRuncDenied(t *testing.T) {
	requirements(t)
	path := build(t, ".")
	if _, raised := hardLimit(t); raised == "unlimited" {
		t.Skip("nothing is denied here: the limit may be raised to unlimited")
	}
	got, code, stderr := container{hookArgs: []string{"--memlock", "unlimited", "--on-denied", "fail"}}.run(t, path)
	if got != "" || code == 0 || !strings.Contains(stderr, "need CAP_SYS_RESOURCE to raise the hard limit of") {
		t.Errorf("stdout %q, exit code %d, stderr %s", got, code, stderr)
	}
}

// A mistake in the spec stops the container, and runc passes on what it is.
func TestRuncBadValue(t *testing.T) {
	requirements(t)
	got, code, stderr := container{hookArgs: []string{"--memlock", "8MX"}}.run(t, build(t, "."))
	if got != "" || code == 0 || !strings.Contains(stderr, `parse size \"8MX\"`) &&
		!strings.Contains(stderr, `parse size "8MX"`) {
		t.Errorf("stdout %q, exit code %d, stderr %s", got, code, stderr)
	}
}

// A process that runc starts in a container later, as for kubectl exec, does
// not descend from the init process and has the runtime's limit.
func TestRuncExecDoesNotInherit(t *testing.T) {
	requirements(t)
	c := container{hookArgs: []string{"--memlock", "512Ki"}, command: "ulimit -l; read line"}
	root, id := t.TempDir(), containerID(t)
	init := runc(root, "run", "--bundle", c.bundle(t, build(t, ".")), id)
	stdin, err := init.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := init.StdoutPipe()
	if err == nil {
		err = init.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer init.Wait()
	defer stdin.Close() // ends the container
	var inInit int
	if _, err := fmt.Fscan(stdout, &inInit); err != nil || inInit != 512 {
		t.Fatalf("ulimit -l of the init process: %d, %v", inInit, err)
	}
	out, err := runc(root, "exec", id, "/bin/busybox", "sh", "-c", "ulimit -l").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "64" {
		t.Errorf("ulimit -l of an exec process: %q, %v; want 64", out, err)
	}
}
