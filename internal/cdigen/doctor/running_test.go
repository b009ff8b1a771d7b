package doctor

import (
	"bytes"
	"encoding/json"
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
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
)

// silentPID and deadPID are containers that the child of these tests does not answer about: it waits, or ends.
const silentPID, deadPID = 1<<30 - 1, 1<<30 - 2

// TestMain makes this binary the child that looks into containers.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != LookCommand {
		os.Exit(m.Run())
	}
	var q lookQuestion
	err := json.NewDecoder(os.Stdin).Decode(&q)
	pids, pid := q.PIDs, 0
	if i := slices.IndexFunc(pids, func(pid int) bool { return pid == silentPID || pid == deadPID }); i >= 0 {
		q.PIDs, pid = pids[:i], pids[i]
	}
	text, err2 := json.Marshal(q)
	if err := errors.Join(err, err2, AnswerLooks(bytes.NewReader(text), os.Stdout)); err != nil {
		panic(err)
	}
	for pid == silentPID {
		time.Sleep(time.Hour) // it is killed
	}
}

// TestLooksEnd: a container that does not answer, or that kills the child, costs the others nothing.
func TestLooksEnd(t *testing.T) {
	const gone = 1 << 30
	answers := askLooks(t.Context(), lookQuestion{PIDs: []int{gone, deadPID, gone}}, time.Minute)
	if len(answers) != 3 || !answers[0].Ended || answers[1].Ended || answers[1].Error == "" || !answers[2].Ended {
		t.Errorf("the child ends: %+v", answers)
	}
	answers = askLooks(t.Context(), lookQuestion{PIDs: []int{silentPID}}, time.Millisecond)
	if len(answers) != 1 || !strings.Contains(answers[0].Error, "did not answer in time") {
		t.Errorf("the child is silent: %+v", answers)
	}
}

// startProcess starts a program in a root file system of its own, as a container does. It ends with the test.
func startProcess(t *testing.T, image *rdmaimage.Image, nodes ...string) usable.Running {
	t.Helper()
	busybox, err := os.ReadFile(needs.Program(t, "busybox", "apt-get install busybox-static"))
	must.NoError(t, err)
	dir := t.TempDir()
	image.Files["bin/busybox"] = string(busybox)
	image.Make(t, dir)
	for _, name := range nodes {
		at := filepath.Join(dir, "dev", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), unix.Mknod(at, unix.S_IFCHR, int(unix.Mkdev(1, 3))),
			os.Chmod(at, 0o666)); err != nil {
			t.Fatal(err)
		}
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
	f.replace(specPath, "unlimited", "1Ki") // any machine's limit does
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
	var unusable, ok []finding.Finding
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
		!strings.Contains(unusable[0].Message, "no provider mlx5") || strings.Contains(unusable[0].Message, "the hook said") {
		t.Errorf("found %+v, want one finding of %q", unusable, want)
	}
	if len(ok) != 1 || !slices.Equal(ok[0].Subjects, []string{of(good)}) {
		t.Errorf("well are %+v, want %s", ok, of(good))
	}
	for _, u := range r.Findings {
		test.False(t, u.Severity == finding.NotSeen && strings.Contains(u.Message, "container"),
			test.Sprintf("not seen: %v", u))
	}
	f.host.Containers = func() ([]usable.Running, error) { return []usable.Running{good}, errors.New("no /proc") }
	test.StrContains(t, render(t, f.diagnose()), "running containers: no /proc", test.Sprint("not seen"))
	f.host.Container = strconv.Itoa(bad.PID)
	if r := f.diagnose(); !slices.ContainsFunc(r.Findings, func(f finding.Finding) bool {
		return f.ID == "container-unusable" && slices.Contains(f.Subjects, "container "+strconv.Itoa(bad.PID))
	}) {
		t.Errorf("the container that was asked for: %v", r.Findings)
	}
	if !isEnded(fmt.Errorf("look: %w", fs.ErrNotExist)) || !isEnded(unix.ESRCH) || isEnded(nil) ||
		isEnded(fs.ErrPermission) {
		t.Error("which errors are those of containers that end?")
	}
}
