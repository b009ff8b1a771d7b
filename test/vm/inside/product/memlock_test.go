package product

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// lockedMemory compares what doctor says of locked memory with what containers have:
// those of this session, which has 8 MiB, and those of a daemon that has 64 KiB.
func lockedMemory(t *testing.T) {
	install(t)
	inside.Must(t, "cdi-gen", "generate", "--to", specDir)
	service := startService(t)

	r := doctor(t)
	test.Eq(t, 0, r.code, test.Sprintf("with the hook: status %d\n%s", r.code, r))
	for subject, title := range map[string]string{
		"podman run from this session": "containers get 8 MiB of locked memory, and with the hook unlimited",
		service.subject:                "containers get 64 KiB of locked memory, and with the hook unlimited",
	} {
		if f := r.find("memlock-by-hook", subject); f == nil || f.what() != title {
			t.Errorf("no memlock-by-hook about %s with %q:\n%s", subject, title, r)
		}
	}
	const device = "rdma.dev/hca=rxe0"
	execKeepsLimit(t, device)
	wantLimits(t, service, "unlimited unlimited", device)

	inside.Must(t, "cdi-gen", "generate", "--no-hook", "--to", specDir)
	t.Cleanup(func() { inside.Must(t, "cdi-gen", "generate", "--to", specDir) })
	r = doctor(t)
	f := r.find("memlock-low", service.subject)
	if f == nil || f.Severity != "warning" || f.what() != "containers get 64 KiB of locked memory" || r.code != 10 {
		t.Errorf("without the hook: status %d\n%s", r.code, r)
	}
	wantLimits(t, service, "64 64", device)
}

// wantLimits lets the daemon run a container and compares its soft and hard limit, in KiB.
func wantLimits(t *testing.T, s service, want, device string) {
	t.Helper()
	argv := append(slices.Clone(s.podman), "run", "--rm", "--network", "none", "--user", "1000", "--device", device,
		toolsImage, "sh", "-c", "echo $(ulimit -S -l) $(ulimit -H -l)")
	test.Eq(t, want, strings.TrimSpace(inside.Must(t, argv...)),
		test.Sprint("a container of the daemon has the limits"))
}

// execKeepsLimit asserts what doctor says of this session's containers, and of exec
// sessions, which the hook does not reach.
func execKeepsLimit(t *testing.T, device string) {
	t.Helper()
	inside.Must(t, "podman", "run", "--detach", "--name", "limits", "--network", "none", "--device", device, toolsImage, "sleep", "1000")
	out := inside.Must(t, "podman", "exec", "limits", "sh", "-c", "echo process 1: $(awk '/Max locked memory/ {print $4}' /proc/1/limits), session: $(ulimit -S -l)")
	inside.Wants(t, "podman exec", out, "process 1: unlimited, session: 8192\n")
	inside.Must(t, "podman", "rm", "--force", "--time", "0", "limits")
}

// service is podman's service.
type service struct {
	podman  []string // the front of a client's command line
	subject string   // what doctor calls it
}

// startService starts podman's service with 64 KiB of locked memory. Doctor knows it by the cgroup of its unit.
func startService(t *testing.T) service {
	t.Helper()
	const socket, cgroup = "/run/podman-test.sock", "/sys/fs/cgroup/podman.service"
	must.NoError(t, os.MkdirAll(cgroup, 0o755))
	dir, err := os.Open(cgroup)
	must.NoError(t, err)
	defer dir.Close()
	cmd := exec.Command("prlimit", "--memlock=65536:65536", "podman", "system", "service", "--time", "0", "unix://"+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	must.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("podman system service:\n%s", &log)
		}
	})
	inside.Eventually(t, "podman's service listens", time.Minute, func() error {
		_, err := os.Stat(socket)
		return err
	})
	return service{[]string{"podman", "--url", "unix://" + socket}, "podman (pid " + strconv.Itoa(cmd.Process.Pid) + ")"}
}
