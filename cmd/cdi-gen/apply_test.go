package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
