package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
)

// planted are files that anyone who can write to a directory may put there, by their names without an ending.
var planted = map[string]func(file string) error{
	"fifo":      func(file string) error { return unix.Mkfifo(file, 0o644) },
	"socket":    socket,
	"zero":      func(file string) error { return device(file, 5) },
	"tape":      func(file string) error { return device(file, 0) }, // without a driver: opening it fails
	"sparse":    func(file string) error { return sparse(file, 10<<30) },
	"to-zero":   func(file string) error { return os.Symlink("/dev/zero", file) },
	"to-fifo":   func(file string) error { return os.Symlink("fifo.json", file) },
	"loop":      func(file string) error { return os.Symlink(filepath.Base(file), file) },
	"dangling":  func(file string) error { return os.Symlink("absent", file) },
	"directory": func(file string) error { return os.Mkdir(file, 0o755) },
	"closed":    func(file string) error { return os.WriteFile(file, []byte("# closed\n"), 0) },
}

func socket(file string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	at, err := os.Open(filepath.Dir(file)) // a socket's path has 107 bytes at most
	if err != nil {
		return err
	}
	defer at.Close()
	return errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", at.Fd(),
		filepath.Base(file))}), unix.Close(fd))
}

// device makes a node of /dev/zero (5) and its neighbours, or nothing where this process may not.
func device(file string, minor uint32) error {
	if err := unix.Mknod(file, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); !errors.Is(err, unix.EPERM) {
		return err
	}
	return nil
}

func sparse(file string, size int64) error {
	return errors.Join(os.WriteFile(file, nil, 0o644), os.Truncate(file, size))
}

// plant puts all of them into a directory.
func plant(t *testing.T, dir string) {
	t.Helper()
	for name, make := range planted {
		for _, ending := range []string{".json", ".yaml", ".conf"} {
			must.NoError(t, make(filepath.Join(dir, name+ending)))
		}
	}
}

// kinds returns the type and size of what is in a directory, by name.
func kinds(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		info, err := e.Info()
		must.NoError(t, err)
		all[e.Name()] = fmt.Sprint(info.Mode(), info.Size())
	}
	return all
}

// ends runs the program, and fails the test if it does not end. The words of the output stand in one line, because
// findings are wrapped.
func ends(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := programContext(ctx, t, args...)
	out, err := cmd.CombinedOutput()
	must.NoError(t, ctx.Err(), must.Sprintf("cdi-gen %s does not end: %s", args, out))
	must.NotNil(t, cmd.ProcessState, must.Sprint(err))
	return cmd.ProcessState.ExitCode(), strings.Join(strings.Fields(string(out)), " ")
}

// TestPlantedFiles: no command waits for a file of somebody else, fills its memory with it, or changes it. Each one that
// looks for specs says which files no runtime can read.
func TestPlantedFiles(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	must.NoError(t, os.CopyFS(root, os.DirFS(host(t, "roce-lag"))))
	dirs := []string{"etc/cdi", "var/run/cdi", "etc/crio/crio.conf.d", "etc/cni/net.d", "etc/containers", "etc/docker"}
	for _, dir := range dirs {
		must.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		plant(t, filepath.Join(root, dir))
	}
	static := filepath.Join(root, "etc/cdi")
	before := kinds(t, static)
	bundle := filepath.Join(root, "bundle")
	put(t, filepath.Join(bundle, "config.json"), `{"ociVersion":"1.0.0"}`, 0o644)
	specDirs := []string{"--spec-dir", static, "--spec-dir", filepath.Join(root, "var/run/cdi")}
	with := func(more []string, args ...string) []string { return append(args, more...) }
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"validate", static}, exitInvalid, []string{"fifo.json", "it is no regular file", "zero.json",
			"loop.yaml: too many levels of symbolic links", "sparse.yaml"}},
		{[]string{"devices", "--host-root", root}, exitInvalid, []string{`fifo.json": it is no`, "sparse.yaml"}},
		{[]string{"doctor", "--host-root", root}, exitWarnings, []string{"/etc/cdi/fifo.json", "it is no regular file"}},
		{[]string{"generate", "--no-hook", "--host-root", root, "--to", static}, exitOK, []string{"written"}},
		{[]string{"generate", "--no-hook", "--host-root", root, "--to", filepath.Join(static, "fifo.json")}, exitUsage,
			[]string{"is no regular file"}},
		{[]string{"generate", "--no-hook", "--host-root", root, "--config", filepath.Join(static, "fifo.yaml")}, exitUsage,
			[]string{"not a regular file"}},
		{[]string{"generate", "--no-hook", "--host-root", root, "--config", filepath.Join(static, "zero.yaml")}, exitUsage,
			[]string{"not a regular file"}},
		{[]string{"apply", bundle, "--device", "mlx5_bond_9", "--host-root", root}, exitUnresolved, []string{"mlx5_bond_9"}},
		{[]string{"configure", "docker", "--runtime-version", "28.0", "--dry-run", "--host-root", root}, exitOK, nil},
		{[]string{"configure", "crio", "--runtime-version", "1.31", "--dry-run", "--host-root", root}, exitIO,
			[]string{"not a regular file"}},
		{[]string{"report", "--host-root", root, "--to", filepath.Join(t.TempDir(), "report.tar.gz")}, exitOK, nil},
		{[]string{"userspace", "--host-root", root}, exitIO, nil},
		{[]string{"remove", "--from", static}, exitOK, []string{"removed"}},
		{with(specDirs, "remove", "--all"), exitNothing, []string{`fifo.json" stays: it cannot be read`}},
	} {
		code, said := ends(t, c.args...)
		test.Eq(t, c.code, code, test.Sprintf("cdi-gen %s: exit code %d, want %d: %s", c.args, code, c.code, said))
		for _, want := range c.says {
			test.StrContains(t, said, want, test.Sprintf("cdi-gen %s does not say", c.args))
		}
		sameContents(t, strings.Join(c.args, " "), before, kinds(t, static))
	}
}

// TestCrowdedDirectory: a directory with more files than a node can have specs is named, and remove --all still finds
// ours in it.
func TestCrowdedDirectory(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "0.json")
	put(t, first, "{", 0o644)
	count := hostfs.MaxEntries + 1
	if os.Getenv("TEST_LONG") != "" {
		count = 100_000
	}
	for i := 1; i < count; i++ {
		// Other links of one file, which cost no inode. A file system may bound them.
		link := filepath.Join(dir, fmt.Sprint(i, ".json"))
		if err := os.Link(first, link); errors.Is(err, unix.EMLINK) {
			first = link
			put(t, first, "{", 0o644)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	ours := filepath.Join(dir, "site.yaml")
	put(t, ours, strings.Replace(gpuSpec, "nvidia.com/gpu", "rdma.dev/hca", 1), 0o644)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"validate", dir}, exitIO, "too many entries: more than 10000"},
		{[]string{"devices", "--spec-dir", dir}, exitInvalid, "too many entries: more than 10000"},
		{[]string{"remove", "--all", "--spec-dir", dir}, exitOK, fmt.Sprint(count-20, " files more")},
	} {
		if code, said := ends(t, c.args...); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("cdi-gen %s: exit code %d, want %d and %q: %.2000s", c.args, code, c.code, c.says, said)
		}
	}
	if _, err := os.Lstat(ours); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("our spec is still there: %v", err)
	}
}

// TestPlantedSysfs: in the copy of a host, no link leads to a file of this system, no file fills the memory, and none
// blocks.
func TestPlantedSysfs(t *testing.T) {
	for says, plant := range map[string]func(file string) error{
		"path escapes from parent":        func(file string) error { return os.Symlink(t.TempDir(), file) },
		"larger than such a file can be:": func(file string) error { return sparse(file, 2<<20) },
		"not a regular file":              func(file string) error { return unix.Mkfifo(file, 0o644) },
	} {
		root := filepath.Join(t.TempDir(), "root")
		must.NoError(t, os.CopyFS(root, os.DirFS(host(t, "roce-lag"))))
		hca, err := filepath.EvalSymlinks(filepath.Join(root, "sys/class/infiniband/mlx5_bond_0"))
		must.NoError(t, err)
		for _, file := range []string{filepath.Join(hca, "node_guid"), filepath.Join(hca, "../../numa_node")} {
			must.NoError(t, errors.Join(os.Remove(file), plant(file)))
		}
		misc := filepath.Join(root, "sys/class/misc")
		must.NoError(t, errors.Join(os.RemoveAll(misc), plant(misc)))
		for _, command := range [][]string{{"list"}, {"topology"}, {"doctor"}, {"report", "--to", "-"}} {
			_, said := ends(t, append(command, "--host-root", root)...)
			test.StrContains(t, said, says, test.Sprint(command))
		}
	}
}
