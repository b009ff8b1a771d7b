package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// site is a host root of its own for a machine, with files of the site.
func site(t *testing.T, machine string) string {
	t.Helper()
	root := t.TempDir()
	must.NoError(t, os.Symlink(filepath.Join(host(t, machine), "sys"), filepath.Join(root, "sys")))
	put(t, filepath.Join(root, "opt/topo.xml"), "<system/>", 0o644)
	put(t, filepath.Join(root, "etc/site.conf"), "", 0o644)
	return root
}

// TestSiteSettings: environment and mounts reach every device, once, from flags and
// from a config file; flags win.
func TestSiteSettings(t *testing.T) {
	root := site(t, "roce-lag")
	config := filepath.Join(root, "cdi-gen.yaml")
	put(t, config, `apiVersion: rdma.dev/v1alpha1
kind: HostConfig
names: [guid]
nodes: [verbs]
env: {A: file, B: file}
mounts: [{hostPath: /etc/site.conf, containerPath: /etc/app.conf}]
ncclTopology: /opt/topo.xml
`, 0o644)
	r := cdigen(t, "generate", "--host-root", root, "--no-hook", "--no-all", "--output", "json", "--config", config,
		"--names", "netdev", "--env", "A=flag")
	r.expect(t, exitOK, "")
	spec := loads(t, r.stdout, "json")
	if got := describe(spec); got != "net-bond0:uverbs0" || spec.Version != "0.3.0" {
		t.Errorf("%s, CDI %s", got, spec.Version)
	}
	if got, want := spec.Devices[0].ContainerEdits.Env, []string{"A=flag", "B=file", "NCCL_TOPO_FILE=/opt/topo.xml",
		"RDMA_DEVICE_PCI_0000_3B_00_0=mlx5_bond_0"}; !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
	var mounts []string
	for _, m := range spec.ContainerEdits.Mounts {
		mounts = append(mounts, m.HostPath+":"+m.ContainerPath+":"+strings.Join(m.Options, ","))
	}
	want := []string{"/etc/site.conf:/etc/app.conf:ro,nosuid,nodev,bind",
		"/opt/topo.xml:/opt/topo.xml:ro,nosuid,nodev,bind"}
	test.SliceEqOp(t, want, mounts, test.Sprint("mounts"))
}

// TestBadSiteSettings: what is wrong is named, with file, line and field.
func TestBadSiteSettings(t *testing.T) {
	root := site(t, "roce-lag")
	config := filepath.Join(root, "cdi-gen.yaml")
	put(t, config, "apiVersion: rdma.dev/v1alpha1\nkind: HostConfig\nmemlok: 1\n", 0o644)
	values := filepath.Join(root, "values.yaml")
	put(t, values, "apiVersion: rdma.dev/v1alpha1\nkind: HostConfig\nmemlock: 4Gx\nnames: [pci]\nmounts:\n- hostPath: "+
		"site\n", 0o644)
	for _, c := range []struct{ args, want string }{
		{"--config " + config, config + `": line 3: memlok: unknown field; see`},
		{"--config " + values, values + `": line 3: memlock: parse size "4Gx"`},
		{"--config " + values, "\n  | line 6: mounts[0]: hostPath \"site\""},
		{"--config " + root, "read --config: read " + root + ": not a regular file"},
		{"--config /absent.yaml", "read --config: open /absent.yaml"},
		{"--env A", `--env: environment variable "A": want NAME=VALUE`},
		{"--mount relative", `--mount: mount "relative": want HOST or HOST:CONTAINER`},
		{"--mount /opt:/a:ro", `--mount: mount "/opt:/a:ro": want HOST or HOST:CONTAINER: mounts are always read-only`},
		{"--mount /opt:/a --mount /etc:/a", "--mount: /opt is mounted at /a already"},
		{"--mount /opt:/", "a mount at / hides all of the image"},
		{"--env A=\x01", "the value is not printable text"},
		{"--mount /absent", "absent: no such file or directory; every container start would fail"},
		{"--nccl-topology /absent.xml", "absent.xml: no such file or directory"},
		{"--userspace both", `--userspace "both": want image or host`},
		{"--target podman-0.1", "--target: "},
		{"--check", "--check compares with a file"},
	} {
		args := append([]string{"generate", "--no-hook", "--host-root", root}, strings.Fields(c.args)...)
		cdigen(t, args...).expect(t, exitUsage, c.want)
	}
}

// TestSiteMounts: a mount of a flag takes the place of one in the file, and a path in
// the file may have a colon.
func TestSiteMounts(t *testing.T) {
	root := site(t, "roce-lag")
	put(t, filepath.Join(root, "opt/0000:3b:00.0"), "", 0o644)
	config := filepath.Join(root, "cdi-gen.yaml")
	put(t, config, `apiVersion: rdma.dev/v1alpha1
kind: HostConfig
mounts: [{hostPath: /opt/0000:3b:00.0}, {hostPath: /etc/site.conf, containerPath: /etc/app.conf}]
`, 0o644)
	r := cdigen(t, "generate", "--host-root", root, "--no-hook", "--output", "json", "--config", config, "--mount",
		"/opt/topo.xml:/etc/app.conf", "--mount", "/opt/topo.xml:/etc/app.conf")
	r.expect(t, exitOK, "")
	var mounts []string
	for _, m := range loads(t, r.stdout, "json").ContainerEdits.Mounts {
		mounts = append(mounts, m.HostPath+" at "+m.ContainerPath)
	}
	want := []string{"/opt/topo.xml at /etc/app.conf", "/opt/0000:3b:00.0 at /opt/0000:3b:00.0"}
	test.SliceEqOp(t, want, mounts, test.Sprint("mounts"))
}

// TestTarget: the default spec loads in the oldest runtimes; what needs more is
// named, with the version it needs.
func TestTarget(t *testing.T) {
	for _, target := range []string{"podman-4.1", "podman-4.3", "podman-4.9", "containerd-1.7", "docker-28", "crio-1.24",
		"crio-1.31"} {
		cdigen(t, "generate", "--no-hook", "--host-root", host(t, "hgx-h100"), "--target", target).expect(t, exitOK, "")
	}
	cdigen(t, "generate", "--no-hook", "--host-root", host(t, "hgx-h100"), "--target", "containerd-1.6").
		expect(t, exitUsage, "containerd-1.6")
}

// TestUserspace: the host's libraries are asked for on a host that has none.
func TestUserspace(t *testing.T) {
	cdigen(t, "generate", "--no-hook", "--host-root", site(t, "roce-lag"), "--userspace", "host").
		expect(t, exitIO, "--userspace host: find the host's RDMA user space: ")
}

// TestCheck: a file that fits, one that does not, and one that is not there.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rdma.dev-hca.yaml")
	check := func(machine string) result { return generateTo(t, machine, dir, "--check") }

	r := check("roce-lag")
	r.expect(t, exitDrift, file+" does not fit the host")
	test.StrContains(t, r.stdout, "+cdiVersion: 0.3.0", test.Sprint("difference"))
	holds(t, dir)
	generateTo(t, "roce-lag", dir).expect(t, exitOK, "written")
	if r := check("roce-lag"); r.code != exitOK || r.stdout != "" || !strings.Contains(r.stderr, "fits the host") {
		t.Errorf("%+v", r)
	}
	r = check("roce-sriov")
	r.expect(t, exitDrift, "does not fit the host")
	for _, line := range []string{"+  - name: mlx5_2\n", "-  - name: mlx5_bond_0\n", "--- " + file} {
		test.StrContains(t, r.stdout, line, test.Sprint("the difference lacks"))
	}
	r = check("none")
	r.expect(t, exitDrift, "does not fit the host")
	holds(t, dir, "rdma.dev-hca.yaml")
	must.NoError(t, os.Remove(file))
	check("none").expect(t, exitOK, "fits the host")
}

// events is a source of kernel events that a test feeds.
type events struct{ messages chan []byte }

func (e events) Read(p []byte) (int, error) {
	m, ok := <-e.messages
	if !ok {
		return 0, os.ErrClosed
	}
	return copy(p, m), nil
}

func (e events) Close() error { return nil }

// TestWatch: the spec follows the host at the kernel's events: written, changed,
// removed and written again.
func TestWatch(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	sys, file := filepath.Join(root, "sys"), filepath.Join(dir, "rdma.dev-hca.yaml")
	become := func(machine string) {
		t.Helper()
		next := filepath.Join(root, "next")
		must.NoError(t, errors.Join(os.Symlink(filepath.Join(host(t, machine), "sys"), next), os.Rename(next, sys)))
	}
	feed := events{make(chan []byte)}
	old := openUevents
	openUevents = func() (io.ReadCloser, error) { return feed, nil }
	defer func() { openUevents = old }()

	become("none")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	var stdout, stderr bytes.Buffer
	go func() {
		done <- run(ctx, []string{"watch", "--no-hook", "--host-root", root, "--to", dir}, &stdout, &stderr)
	}()
	for _, step := range []struct{ machine, device string }{{"roce-lag", "mlx5_bond_0"}, {"soft", "rxe0"}, {"none", ""},
		{"soft", "rxe3"}} {
		become(step.machine)
		feed.messages <- []byte("add@/devices/x\x00SUBSYSTEM=infiniband\x00")
		await(t, step.machine, func() bool {
			data, err := os.ReadFile(file)
			if step.device == "" {
				return errors.Is(err, os.ErrNotExist)
			}
			return strings.Contains(string(data), "name: "+step.device+"\n")
		})
	}
	// A node that is made later than the kernel's event.
	put(t, filepath.Join(root, "dev/null"), "", 0o666)
	feed.messages <- []byte("add@/devices/x\x00SUBSYSTEM=infiniband\x00")
	await(t, "missing nodes", func() bool { _, err := os.Stat(file); return errors.Is(err, os.ErrNotExist) })
	put(t, filepath.Join(root, "dev/infiniband/uverbs0"), "", 0o666)
	await(t, "late node", func() bool { _, err := os.Stat(file); return err == nil })
	cancel()
	close(feed.messages)
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), "removed: its devices are gone") ||
		strings.Contains(stderr.String(), "up to date") {
		t.Errorf("standard output %q, standard error:\n%s", &stdout, &stderr)
	}
	cdigen(t, "watch").expect(t, exitUsage, "with --to")
	cdigen(t, "watch", "--to", dir, "--names", "x").expect(t, exitUsage, "--names")
}

// await waits for a condition.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		must.False(t, time.Now().After(deadline), must.Sprintf("%s: the condition does not come true", what))
	}
}
