package limits

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

const unified = "/sys/fs/cgroup"

// read returns a file of a cgroup.
func read(t *testing.T, dir, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, file))
	must.NoError(t, err)
	return string(data)
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	must.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
}

// member is a process in a cgroup of its own that waits before it uses verbs, as the
// init process of a container does while its hooks run.
type member struct {
	pid   int
	words string // a file
	start func()
}

// startIn starts a user of verbs in a cgroup that is there.
func startIn(t *testing.T, dir string, args ...string) *member {
	t.Helper()
	m := &member{words: filepath.Join(t.TempDir(), "words")}
	cmd := exec.Command("sh", append([]string{"-c", `read go && exec "$@"`, "sh", userPath, userRole, m.words}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.NoError(t, err)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		test.NoError(t, os.Remove(dir))
	})
	m.pid = cmd.Process.Pid
	m.start = func() { fmt.Fprintln(stdin, "go") }
	write(t, dir, "cgroup.procs", fmt.Sprint(m.pid))
	return m
}

// said starts the process, waits until it has used verbs and returns its words.
func (m *member) said(t *testing.T) string {
	t.Helper()
	m.start()
	return said(t, m.words)
}

// runHook runs the hook for a process, as a runtime does.
func runHook(t *testing.T, pid int, args ...string) (talk string, code int) {
	t.Helper()
	return runHookAs(t, nil, pid, args...)
}

// runHookAs runs the hook behind another program, such as one that changes the user.
func runHookAs(t *testing.T, front []string, pid int, args ...string) (talk string, code int) {
	t.Helper()
	argv := slices.Concat(front, []string{hookPath}, args)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"id":"by-hand","status":"creating","pid":%d}`, pid))
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestV1 moves the controller to cgroup v1, to a mount that only mountinfo names. It has
// to come first: where a child of cgroup v2's root has had the controller, the kernel
// lends it to v1 only some time after the last one is gone.
func TestV1(t *testing.T) {
	const mount = "/mnt/rdma of v1"
	write(t, unified, "cgroup.subtree_control", "-rdma")
	t.Cleanup(func() {
		inside.Eventually(t, "the controller is back in v2", time.Minute, func() error {
			return os.WriteFile(unified+"/cgroup.subtree_control", []byte("+rdma"), 0o644)
		})
	})
	must.NoError(t, os.MkdirAll(mount, 0o755))
	inside.Eventually(t, "mount the rdma hierarchy of v1", time.Minute, func() error {
		if r := inside.Run("mount", "-t", "cgroup", "-o", "rdma", "none", mount); r.Code != 0 {
			return fmt.Errorf("status %d: %s", r.Code, r.Out)
		}
		return nil
	})
	t.Cleanup(func() { inside.Must(t, "umount", mount) })
	web := mount + "/pods/web"
	must.NoError(t, os.MkdirAll(web, 0o755))
	t.Cleanup(func() { os.Remove(mount + "/pods") })
	process := startIn(t, web, "/dev/infiniband/uverbs0", "2", "3")
	talk, code := runHook(t, process.pid, "--limit", "rxe0:handles=1,objects=2", "--on-denied", "fail")
	t.Log(talk, read(t, web, "rdma.max"))
	if code != 0 || !strings.Contains(read(t, web, "rdma.max"), "rxe0 hca_handle=1 hca_object=2 \n") {
		t.Errorf("status %d, rdma.max %q", code, read(t, web, "rdma.max"))
	}
	inside.Wants(t, "the process", process.said(t), "context 1: ok", "context 2: EAGAIN", "object 2: ok", "object 3: EAGAIN")
}

// TestDeviceComesBack shows what docs/hook.md says of a device that goes: its limits go
// with it. The device is one that no test has limited yet, see the note on the kernel
// there.
func TestDeviceComesBack(t *testing.T) {
	dir := unified + "/outlives"
	must.NoError(t, os.Mkdir(dir, 0o755))
	process := startIn(t, dir, "/dev/infiniband/uverbs0", "1", "1")
	talk, _ := runHook(t, process.pid, "--limit", "rxe1:handles=2")
	inside.Wants(t, "the hook", talk, "limit of rxe1 set from")
	inside.Must(t, "rdma", "link", "delete", "rxe1")
	inside.Must(t, "rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "dummy0")
	inside.Wants(t, "rdma.max", read(t, dir, "rdma.max"), "rxe1 hca_handle=max hca_object=max \n")
}

// TestEnable has cgroups for which nobody has enabled the controller.
func TestEnable(t *testing.T) {
	for name, test := range map[string]struct {
		busy bool // there is a process between the root and the container
		want string
		max  bool
	}{
		"free": {false, "limit of rxe0 set from", true},
		"busy": {true, "accounting only: the rdma controller is not enabled for the container: " +
			"write +rdma to /sys/fs/cgroup/busy/cgroup.subtree_control: device or resource busy", false},
	} {
		t.Run(name, func(t *testing.T) {
			pods := filepath.Join(unified, name)
			web := pods + "/web"
			must.NoError(t, os.MkdirAll(web, 0o755))
			t.Cleanup(func() {
				inside.Eventually(t, "remove "+pods, time.Minute, func() error { return os.Remove(pods) })
			})
			if test.busy {
				other := exec.Command("sleep", "1000")
				must.NoError(t, other.Start())
				t.Cleanup(func() { other.Process.Kill(); other.Wait() })
				write(t, pods, "cgroup.procs", fmt.Sprint(other.Process.Pid))
			}
			process := startIn(t, web, "/dev/infiniband/uverbs0", "2", "0")
			if _, err := os.Stat(web + "/rdma.max"); err == nil {
				t.Fatal("the controller is enabled already")
			}
			talk, code := runHook(t, process.pid, "--limit", "rxe0:handles=1")
			if _, err := os.Stat(web + "/rdma.max"); code != 0 || !strings.Contains(talk, test.want) || (err == nil) != test.max {
				t.Errorf("status %d, rdma.max %v, %q", code, err, talk)
			}
			second := map[bool]string{true: "context 2: EAGAIN", false: "context 2: ok"}[test.max]
			inside.Wants(t, "the process", process.said(t), "context 1: ok", second)
		})
	}
}

// TestDelegated has cgroups that belong to a user, as rootless podman's do under systemd.
// What root has enabled the user can limit; the rest the user cannot enable.
func TestDelegated(t *testing.T) {
	const user = unified + "/user"
	must.NoError(t, os.MkdirAll(user, 0o755))
	t.Cleanup(func() {
		write(t, unified, "cgroup.subtree_control", "+rdma")
		inside.Eventually(t, "remove "+user, time.Minute, func() error { return os.Remove(user) })
	})
	inside.Must(t, "chown", "1000:1000", user, user+"/cgroup.subtree_control", user+"/cgroup.procs")
	for _, test := range []struct{ root, want string }{
		{"-rdma", "write +rdma to /sys/fs/cgroup/cgroup.subtree_control: permission denied: only root can enable it"},
		{"+rdma", "limit of rxe0 set from"},
	} {
		write(t, unified, "cgroup.subtree_control", test.root)
		web := user + "/web"
		inside.Must(t, append(inside.AsUser("65536:65536"), "mkdir", web)...)
		t.Run(test.root, func(t *testing.T) {
			process := startIn(t, web, "/dev/infiniband/uverbs0", "2", "0")
			talk, code := runHookAs(t, inside.AsUser("65536:65536"), process.pid, "--limit", "rxe0:handles=1")
			if code != 0 || !strings.Contains(talk, test.want) {
				t.Errorf("status %d, %q", code, talk)
			}
		})
	}
}

// report is what the tests read of the hook's report.
type report struct {
	Status, Outcome string
	Limits          []struct {
		Device, Outcome, Message string
		Want, Before, After      struct{ Handles, Objects string }
	}
}

// takeReports reads the reports of a container, by the first device that they limit,
// and removes them.
func takeReports(t *testing.T, id string) map[string]report {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(reports, id+"*.json"))
	must.NoError(t, err)
	found := map[string]report{}
	for _, file := range files {
		var r report
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		must.NoError(t, err, must.Sprintf("%s", file))
		t.Logf("%s: %s", filepath.Base(file), data)
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), id), ".json")
		found[strings.TrimPrefix(name, ".")] = r
		os.Remove(file)
	}
	return found
}
