package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
)

// startProcess starts a program in a root file system of its own, as a container does. It ends with the test.
func startProcess(t *testing.T, image *rdmaimage.Image, nodes ...string) usable.Running {
	t.Helper()
	busybox, err := os.ReadFile(needs.Program(t, "busybox", "apt-get install busybox-static"))
	must.NoError(t, err)
	dir := t.TempDir()
	image.Files["bin/busybox"] = string(busybox)
	for _, name := range nodes {
		image.Files["dev/"+name] = ""
	}
	image.Make(t, dir)
	for _, name := range nodes {
		must.NoError(t, os.Chmod(filepath.Join(dir, "dev", name), 0o666))
	}
	cmd := exec.Command("/bin/busybox", "cat")
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Chroot: dir}, "/"
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.NoError(t, err)
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	return usable.Running{ID: fmt.Sprintf("%012x%052x", cmd.Process.Pid, 0), PID: cmd.Process.Pid}
}

// TestRunningContainers: doctor looks into each running container that was given an HCA, says each fault once with all
// containers that have it, and is silent of others: of those without an HCA, of privileged ones, and of those that end.
func TestRunningContainers(t *testing.T) {
	needs.Root(t, "root file systems of their own")
	f := newFake(t, "hgx-h100")
	const node = "infiniband/uverbs0"
	good := startProcess(t, rdmaimage.Debian("mlx5"), node)
	bad := startProcess(t, rdmaimage.Debian("rxe"), node)
	too := startProcess(t, rdmaimage.Debian("rxe"), node)
	f.host.Containers = func() ([]usable.Running, error) {
		return []usable.Running{
			good, bad, too, startProcess(t, rdmaimage.Debian("rxe")), startProcess(t, rdmaimage.Debian("rxe"), node, "kmsg"),
			{ID: strings.Repeat("0", 64), PID: 1 << 30},
		}, nil
	}
	of := func(c usable.Running) string { return "container " + c.ID[:12] }
	var unusable, ok []Finding
	r := f.diagnose()
	for _, found := range r.Findings {
		switch found.ID {
		case "container-unusable":
			unusable = append(unusable, found)
		case "container-ok":
			ok = append(ok, found)
		}
	}
	want := []string{of(bad), of(too), "mlx5_0"}
	slices.Sort(want)
	if want = slices.Compact(want); len(unusable) != 1 || !slices.Equal(unusable[0].Subjects, want) ||
		!strings.Contains(unusable[0].Reason, "no provider mlx5") || strings.Contains(unusable[0].Reason, "the hook said") {
		t.Errorf("found %+v, want one finding of %q", unusable, want)
	}
	if len(ok) != 1 || !slices.Equal(ok[0].Subjects, []string{of(good)}) {
		t.Errorf("well are %+v, want %s", ok, of(good))
	}
	for _, u := range r.Unseen {
		test.StrNotContains(t, u.What, "container", test.Sprintf("not seen: %v", u))
	}
	f.host.Containers = func() ([]usable.Running, error) { return []usable.Running{good}, errors.New("no /proc") }
	test.True(t, slices.Contains(f.diagnose().Unseen, Unseen{"running containers", "no /proc"}),
		test.Sprint("not seen"))
	f.host.Container = strconv.Itoa(bad.PID)
	if r := f.diagnose(); !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.ID == "container-unusable" && slices.Contains(f.Subjects, "container "+strconv.Itoa(bad.PID))
	}) {
		t.Errorf("the container that was asked for: %v", r.Findings)
	}
	if !isEnded(fmt.Errorf("look: %w", fs.ErrNotExist)) || !isEnded(unix.ESRCH) || isEnded(nil) || isEnded(fs.ErrPermission) {
		t.Error("which errors are those of containers that end?")
	}
}
