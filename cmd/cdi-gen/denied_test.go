package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestOnDenied: if the hook may not raise the limit, runc shows the reason with --on-denied fail. With clamp the
// container starts, and doctor explains what happened.
func TestOnDenied(t *testing.T) {
	needs.Root(t, "containers")
	needs.Program(t, "runc", "apt-get install runc")
	needs.Program(t, "setpriv", "apt-get install util-linux")
	busybox := needs.Program(t, "busybox", "apt-get install busybox-static")
	root := rdmatest.Root(t, "roce-lag")
	hook := filepath.Join(root, "usr/bin/rdma-hook")
	build := exec.Command("go", "build", "-o", hook, "../rdma-hook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must.NoError(t, os.MkdirAll(filepath.Join(root, "dev/infiniband"), 0o755))
	for _, node := range []string{"uverbs0", "rdma_cm"} {
		path := filepath.Join(root, "dev/infiniband", node)
		must.NoError(t, unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 11))))
	}
	// start runs a container whose runtime cannot raise a hard limit of 8 MiB. It keeps the report of the hook.
	start := func(policy string) (string, error) {
		t.Helper()
		cdigen(t, "generate", "--host-root", root, "--memlock", "16Mi", "--on-denied", policy, "--to",
			filepath.Join(root, "etc/cdi")).expect(t, exitOK, "written")
		// The hook of the host lies below its root, where runc does not look.
		spec := filepath.Join(root, "etc/cdi/rdma.dev-hca.yaml")
		put(t, spec, strings.ReplaceAll(read(t, spec), "path: /usr/bin/rdma-hook", "path: "+hook), 0o644)
		dir := newBundle(t)
		put(t, filepath.Join(dir, "rootfs/bin/busybox"), read(t, busybox), 0o755)
		for _, sub := range []string{"proc", "dev"} {
			must.NoError(t, os.MkdirAll(filepath.Join(dir, "rootfs", sub), 0o755))
		}
		cdigen(t, "apply", dir, "--host-root", root, "--device", "mlx5_bond_0").expect(t, exitOK, "written")
		put(t, spec, strings.ReplaceAll(read(t, spec), "path: "+hook, "path: /usr/bin/rdma-hook"), 0o644)
		script := `mount -t tmpfs run /run && ulimit -S -l 64 && ulimit -H -l 8192
setpriv --bounding-set=-sys_resource runc --root "$1" run --bundle "$2" "$3"
code=$?; mkdir -p "$4/run" && cp -a /run/rdma.dev "$4/run/"; exit $code`
		id := fmt.Sprintf("cdi-gen-denied-%d-%s", os.Getpid(), policy)
		out, err := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", t.TempDir(), dir, id, root).CombinedOutput()
		return string(out), err
	}
	config := filepath.Join(root, "etc/site.yaml")
	put(t, config, "apiVersion: rdma.dev/v1alpha1\nkind: HostConfig\nonDenied: fail\n", 0o644)
	for flag, fails := range map[string]bool{"": true, "--on-denied=clamp": false} { // the flag wins
		args := strings.Fields("generate --host-root " + root + " --config " + config + " " + flag)
		if r := cdigen(t, args...); r.code != exitOK || strings.Contains(r.stdout, "- --on-denied\n") != fails {
			t.Errorf("%q: exit code %d, %s\n%s", args, r.code, r.stderr, r.stdout)
		}
	}
	put(t, config, "apiVersion: rdma.dev/v1alpha1\nkind: HostConfig\nonDenied: warn\n", 0o644)
	cdigen(t, "generate", "--host-root", root, "--config", config).
		expect(t, exitUsage, `line 3: onDenied: want clamp, fail or ignore, not "warn"`)
	if out, err := start("fail"); err == nil || !strings.Contains(out, "need CAP_SYS_RESOURCE to raise") {
		t.Errorf("with fail: %v: %s", err, out)
	}
	if out, err := start("clamp"); err != nil || !strings.HasPrefix(out, "8192\n") {
		t.Errorf("with clamp: %v: %s", err, out)
	}
	r := cdigen(t, "doctor", "--host-root", root)
	for _, says := range []string{"memlock-clamped", "the hook could not raise the locked memory of the last container",
		"on:  container cdi-gen-deni", "LimitMEMLOCK=infinity"} {
		test.StrContains(t, r.stdout, says, test.Sprint("doctor"))
	}
}
