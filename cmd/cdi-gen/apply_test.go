package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// bundleConfig is the configuration of a bundle. It has fields that Go does not know, and the rules of runc spec.
const bundleConfig = `{
	"ociVersion": "1.0.2",
	"process": {"cwd": "/", "user": {"uid": 0, "gid": 0}, "env": ["PATH=/bin"], "args": ["/bin/busybox", "sh", "-c",
		"exec 2>&1; ulimit -l; ls /dev/infiniband; echo -n > /dev/infiniband/uverbs0 && echo opened"]},
	"root": {"path": "rootfs", "readonly": true},
	"mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "later": {"a": 9007199254740993}},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}],
	"linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}],
		"resources": {"devices": [{"allow": false, "access": "rwm"}]}},
	"later": {"html": "<&>", "number": 1e400}
}
`

// applyHost makes a host with a node and a spec that names it. The node has the number of /dev/kmsg, which no runtime
// allows to a container by itself.
func applyHost(t *testing.T, hook string) string {
	t.Helper()
	root := t.TempDir()
	copyHost(t, "roce-sriov", root)
	dev := filepath.Join(root, "dev/infiniband")
	must.NoError(t, os.MkdirAll(dev, 0o755))
	node := filepath.Join(dev, "uverbs0")
	if err := unix.Mknod(node, unix.S_IFCHR, int(unix.Mkdev(1, 11))); err != nil {
		needs.Missing(t, fmt.Errorf("make a device node: %w", err))
	}
	must.NoError(t, os.Chmod(node, 0o666))
	put(t, filepath.Join(root, "etc/cdi/rdma.dev-hca.yaml"), `cdiVersion: 0.3.0
kind: rdma.dev/hca
devices:
- name: mlx5_0
  containerEdits:
    env: [RDMA_DEVICE_PCI_0000_3B_00_0=mlx5_0]
    deviceNodes: [{path: /dev/infiniband/uverbs0, permissions: rw}]
- name: mlx5_1
  containerEdits:
    env: [RDMA_DEVICE_PCI_0000_3B_00_1=mlx5_1]
    deviceNodes: [{path: /dev/infiniband/uverbs0, permissions: rw}]
containerEdits:
  env: [SITE=here]
  hooks: [{hookName: createRuntime, path: `+hook+`, args: [rdma-hook, --memlock, 512Ki,
    --node, "mlx5_0:uverbs0@0000:3b:00.0", --node, "gone:uverbs99"]}]
`, 0o644)
	return root
}

func newBundle(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "config.json"), bundleConfig, 0o640)
	return dir
}

// TestApply: the bundle gets node, rule, variable and hook, and keeps the rest; a second apply changes nothing.
func TestApply(t *testing.T) {
	root, dir := applyHost(t, "/usr/bin/rdma-hook"), newBundle(t)
	file := filepath.Join(dir, "config.json")
	if err := os.Chown(file, 7, 8); err != nil {
		needs.Missing(t, err)
	}
	args := []string{"apply", dir, "--host-root", root, "--device", "mlx5_0"}
	r := cdigen(t, append(args, "--dry-run")...)
	r.expect(t, exitOK, "")
	if !strings.Contains(r.stdout, `+					"path": "/usr/bin/rdma-hook"`) &&
		!strings.Contains(r.stdout, `"/usr/bin/rdma-hook"`) || read(t, file) != bundleConfig {
		t.Errorf("standard output %q; want the change, and an unchanged bundle", r.stdout)
	}
	cdigen(t, args...).expect(t, exitOK, "config.json written: 1 device node, 0 mounts, 1 hook more")
	got := read(t, file)
	checkGolden(t, "apply.json", got)
	info, err := os.Stat(file)
	must.NoError(t, err)
	if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 7 || stat.Gid != 8 || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has owner %d:%d and mode %v", stat.Uid, stat.Gid, info.Mode())
	}
	cdigen(t, append(args, "--device", "rdma.dev/hca=mlx5_0")...).expect(t, exitOK, "has the devices already")
	test.Eq(t, got, read(t, file), test.Sprint("a second apply changes the bundle"))
	holds(t, dir, "config.json")
}

// TestApplyRefuses: whatever a user puts into a bundle, nothing outside of it is read or written, nothing waits, and
// an error changes nothing.
func TestApplyRefuses(t *testing.T) {
	root, good := applyHost(t, "/hook"), newBundle(t)
	secret := filepath.Join(t.TempDir(), "secret.json")
	put(t, secret, bundleConfig, 0o600)
	at := func(make func(config string) error) string {
		dir := t.TempDir()
		must.NoError(t, make(filepath.Join(dir, "config.json")))
		return dir
	}
	text := func(text string) string {
		return at(func(config string) error { return os.WriteFile(config, []byte(text), 0o644) })
	}
	linked := filepath.Join(t.TempDir(), "linked")
	must.NoError(t, os.Symlink(good, linked))
	for _, tc := range []struct {
		dir  string
		args []string
		code int
		says string
	}{
		{linked, nil, exitIO, "is a symbolic link, which is not followed: name the bundle by its real path"},
		{filepath.Join(linked, "."), nil, exitIO, "is a symbolic link"},
		{at(func(c string) error { return os.Symlink(secret, c) }), nil, exitIO, "it is a symbolic link"},
		{at(func(c string) error { return syscall.Mkfifo(c, 0o644) }), nil, exitIO, "it is no regular file"},
		{at(func(c string) error { return os.Mkdir(c, 0o755) }), nil, exitIO, "it is no regular file"},
		{at(func(c string) error { return errors.Join(os.WriteFile(c, nil, 0o644), os.Truncate(c, 1<<40)) }), nil, exitIO,
			"it is larger than 16 MiB"},
		{t.TempDir(), nil, exitIO, "no such file or directory"},
		{secret, nil, exitIO, "not a directory"},
		{text("{"), nil, exitIO, "decode the configuration"},
		{text("null"), nil, exitIO, "it has no ociVersion"},
		{text("[]"), nil, exitIO, "is this a bundle of an OCI runtime?"},
		{text("{} {}"), nil, exitIO, "decode the configuration"},
		{good, []string{"--device", "mlx5_9"}, exitUnresolved, "rdma.dev/hca=mlx5_9 is in no CDI spec; cdi-gen devices"},
		{good, []string{"--device", "mlx5_1"}, exitDrift, "rdma.dev/hca=mlx5_1 in \"/etc/cdi/rdma.dev-hca.yaml\": it is for " +
			"pci-0000-3b-00-1, and uverbs0 belongs to pci-0000-3b-00-0 (mlx5_0) now"},
		{good, []string{"--spec-dir", "/none"}, exitUnresolved, "rdma.dev/hca=mlx5_0 is in no CDI spec"},
		{good, []string{"--host-root", t.TempDir()}, exitUnresolved, "rdma.dev/hca=mlx5_0 is in no CDI spec"},
	} {
		r := cdigen(t, append([]string{"apply", tc.dir, "--host-root", root, "--device", "mlx5_0"}, tc.args...)...)
		r.expect(t, tc.code, tc.says)
	}
	cdigen(t, "apply", good, "--host-root", root).expect(t, exitUsage, "name the devices with --device")
	cdigen(t, "apply", "--host-root", root).expect(t, exitUsage, "name the directory of one bundle")
	must.NoError(t, os.Remove(filepath.Join(root, "dev/infiniband/uverbs0")))
	cdigen(t, "apply", good, "--host-root", root, "--device", "mlx5_0").
		expect(t, exitIO, "/dev/infiniband/uverbs0: no such file or directory; if devices have changed")
	for _, file := range []string{secret, filepath.Join(good, "config.json")} {
		test.Eq(t, bundleConfig, read(t, file), test.Sprintf("%s has changed", file))
	}
	holds(t, good, "config.json")
}

// TestApplyRuns: real runtimes start the bundle: the container opens the node, and has the memory of the hook, whatever
// nodes that it lacks the hook knows. Without apply it has neither. When another HCA has the node, it does not start.
func TestApplyRuns(t *testing.T) {
	needs.Root(t, "containers")
	needs.Program(t, "busybox", "apt-get install busybox-static")
	hook := filepath.Join(t.TempDir(), "rdma-hook")
	build := exec.Command("go", "build", "-o", hook, "../rdma-hook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The limit of older hosts, and sysfs of the machine.
	const limited = `for d in class devices; do mount --bind "$SYS/$d" "/sys/$d" || exit; done; ulimit -S -l 64 && `
	for runtime, script := range map[string]string{
		"runc": limited + `exec "$@"`,
		// crun refuses hybrid cgroup hierarchies, so it gets version 2 alone, in a mount namespace of its own. Without
		// CAP_SYS_RESOURCE it cannot load a device filter, so it leaves cgroups alone: runc shows the rule of the node.
		"crun": `umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; ` + limited + `shift && ` +
			`exec crun --cgroup-manager=disabled "$@"`,
	} {
		t.Run(runtime, func(t *testing.T) {
			needs.Program(t, runtime, "apt-get install "+runtime)
			root, dir := applyHost(t, hook), newBundle(t)
			rootfs := filepath.Join(dir, "rootfs")
			for _, sub := range []string{"proc", "dev", "bin"} {
				must.NoError(t, os.MkdirAll(filepath.Join(rootfs, sub), 0o755))
			}
			busybox, err := exec.LookPath("busybox")
			must.NoError(t, err)
			put(t, filepath.Join(rootfs, "bin/busybox"), read(t, busybox), 0o755)
			start := func() string {
				t.Helper()
				id := fmt.Sprintf("cdi-gen-test-%d-%s", os.Getpid(), runtime)
				cmd := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", runtime, "--root", t.TempDir(), "run",
					"--bundle", dir, id)
				cmd.Env = append(os.Environ(), "SYS="+filepath.Join(root, "sys"))
				out, _ := cmd.CombinedOutput()
				return string(out)
			}
			before := start()
			if !strings.HasPrefix(before, "64\n") || strings.Contains(before, "opened") {
				t.Fatalf("before apply the container says %q", before)
			}
			cdigen(t, "apply", dir, "--host-root", root, "--device", "mlx5_0").expect(t, exitOK, "written")
			if got, want := start(), "512\nuverbs0\nopened\n"; got != want {
				t.Errorf("the container says %q, want %q", got, want)
			}
			verbs := filepath.Join(root, "sys/class/infiniband_verbs")
			if err := os.Rename(filepath.Join(verbs, "uverbs1"), filepath.Join(verbs, "uverbs0")); err != nil {
				t.Fatal(err)
			}
			if got := start(); strings.Contains(got, "opened") || !strings.Contains(got, "hook") {
				t.Errorf("with the node of another HCA, the runtime says %q", got)
			}
		})
	}
}
