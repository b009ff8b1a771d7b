package usable

import (
	"errors"
	"math"
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

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// TestRunning: a process in a root of its own is checked like a container before its start.
func TestRunning(t *testing.T) {
	needs.Root(t, "a root of its own")
	busybox := needs.Program(t, "busybox", "apt-get install busybox-static")
	dir := t.TempDir()
	i := rdmaimage.Debian("rxe")
	data, err := os.ReadFile(busybox)
	must.NoError(t, err)
	i.Files["bin/busybox"] = string(data)
	i.Make(t, dir)
	node := filepath.Join(dir, nodeDir, "uverbs0")
	must.NoError(t, os.MkdirAll(filepath.Dir(node), 0o755))
	must.NoError(t, unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	for _, p := range []string{dir, filepath.Dir(dir), filepath.Join(dir, "dev"), filepath.Dir(node)} {
		must.NoError(t, os.Chmod(p, 0o755))
	}
	cmd := exec.Command("/bin/busybox", "cat")
	cmd.Env = []string{"NCCL_IB_HCA=mlx5_3"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	cmd.Dir = "/"
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	var limit unix.Rlimit
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit)
	}
	if err == nil {
		small := unix.Rlimit{Cur: min(limit.Max, 64<<10), Max: limit.Max}
		err = errors.Join(unix.Setrlimit(unix.RLIMIT_MEMLOCK, &small), cmd.Start(), unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit))
	}
	must.NoError(t, err)
	defer cmd.Wait()
	defer stdin.Close()
	// Start returns before the kernel has put the environment of the program into its new memory (begin_new_exec and
	// create_elf_tables). What answers runs.
	if _, err := stdin.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pid, err := FindContainer(strconv.Itoa(cmd.Process.Pid))
	must.NoError(t, err)
	look, err := LookInto(pid, mlx5, args.Unlimited)
	must.NoError(t, err)
	var kinds []string
	for _, check := range look.Checks {
		if check.Severity.Bad() {
			kinds = append(kinds, check.ID)
		}
	}
	want := []string{record.Provider.ID, record.Permission.ID, record.Variables.ID, record.Memlock.ID}
	if !slices.Equal(kinds, want) || look.AllDevices {
		t.Errorf("found %v, want %v: %+v", kinds, want, look)
	}
	must.NoError(t, errors.Join(os.Chmod(node, 0o666), os.Chmod(filepath.Dir(node), 0o700)))
	look, err = LookInto(pid, mlx5, args.Unlimited)
	if err != nil || !slices.ContainsFunc(look.Checks, func(c finding.Finding) bool {
		return c.ID == record.Permission.ID && c.Severity.Bad() && strings.Contains(c.Message,
			"cannot search /dev/infiniband (mode 0700")
	}) {
		t.Errorf("the directory is closed: %+v, %v", look, err)
	}
}

// TestRunningMemlock: the kernel's default is too little, all that may be wanted is enough, and what lies between is not
// known. ib_umem_get (drivers/infiniband/core/umem.c) asks for capable(CAP_IPC_LOCK) beside the limit.
func TestRunningMemlock(t *testing.T) {
	for _, tt := range []struct {
		limit  args.Size
		lock   bool
		enough args.Size
		want   finding.Severity
	}{
		{64 << 10, false, args.Unlimited, finding.Warning},
		{8 << 20, false, args.Unlimited, finding.Warning},
		{8 << 20, true, args.Unlimited, finding.OK},
		{8 << 20, false, 8 << 20, finding.OK},
		{1 << 30, false, args.Unlimited, finding.NotSeen},
		{args.Unlimited, false, args.Unlimited, finding.OK},
	} {
		p := Process{Memlock: (*uint64)(&tt.limit), IPCLock: tt.lock}
		if got := p.checkMemlock(tt.enough); got.Severity != tt.want || (got.Remedy == "") == (tt.want == finding.Warning) {
			t.Errorf("%v: %+v", tt, got)
		}
	}
	if got := (&Process{}).checkMemlock(0); got.Severity != finding.NotSeen {
		t.Errorf("no limit: %+v", got)
	}
}

func TestFindContainer(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	inner := "f" + id[1:]
	for cgroup, want := range map[string][]string{
		"0::/system.slice/docker-" + id + ".scope\n":                               {id},
		"0::/machine.slice/libpod-" + id + ".scope/container\n":                    {id},
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope\n": {id},
		"12:rdma:/kubepods/pod1/" + id + "\n":                                      {id},
		"0::/docker/" + id + "/kubepods/pod1/" + inner + "\n":                      {id, inner},
		"0::/machine.slice/libpod-conmon-" + id + ".scope\n":                       nil,
		"0::/kubepods.slice/crio-conmon-" + id + ".scope\n":                        nil,
		"0::/user.slice/user-1000.slice\n":                                         nil,
	} {
		test.SliceEqOp(t, want, containerIDs(cgroup), test.Sprintf("%s", cgroup))
	}
	for _, name := range []string{"", "web", "0123", "../../1", "0123456789ABCDEF"} {
		if pid, err := FindContainer(name); err == nil {
			t.Errorf("%q is process %d", name, pid)
		}
	}
	for stat, want := range map[string]uint64{
		"7 (a) b) 1) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 99 1": 4711, "": math.MaxUint64, "7 (x) S 1": math.MaxUint64,
	} {
		test.Eq(t, want, startOf(stat), test.Sprintf("%q: began", stat))
	}
}
