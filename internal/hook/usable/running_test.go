package usable

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
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
	if err == nil {
		err = cmd.Start()
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
	c, err := OpenRunning(pid)
	must.NoError(t, err)
	defer c.Close()
	var kinds []Kind
	for _, check := range c.Check(mlx5) {
		if check.Result == Unusable {
			kinds = append(kinds, check.Kind)
		}
	}
	if want := []Kind{Provider, Permission, Variables}; !slices.Equal(kinds, want) {
		t.Errorf("found %v, want %v: %v", kinds, want, c.Check(mlx5))
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
