package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/mounttest"
)

// generateTo runs generate on a machine with an output.
func generateTo(t testing.TB, machine, output string, args ...string) result {
	t.Helper()
	return cdigen(t, append([]string{"generate", "--no-hook", "--host-root", host(t, machine), "--to", output},
		args...)...)
}

// TestOutput: a directory, a file, a format, and what is there already.
func TestOutput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc", "cdi")
	yaml, json := filepath.Join(dir, "rdma.dev-hca.yaml"), filepath.Join(dir, "rdma.dev-hca.json")

	generateTo(t, "roce-lag", dir).expect(t, exitOK, yaml+" written: 3 devices, CDI 0.3.0")
	first, err := os.Stat(yaml)
	if err != nil || first.Mode().Perm() != 0o644 {
		t.Fatalf("%v, mode %v", err, first.Mode())
	}
	generateTo(t, "roce-lag", dir).expect(t, exitOK, yaml+" is up to date: 3 devices, CDI 0.3.0")
	if second, err := os.Stat(yaml); err != nil || !os.SameFile(first, second) ||
		!first.ModTime().Equal(second.ModTime()) {
		t.Errorf("an equal spec was written again (%v)", err)
	}
	generateTo(t, "roce-lag", dir, "--no-all").expect(t, exitOK, yaml+" written: 2 devices")
	generateTo(t, "roce-lag", dir, "--output", "json").expect(t, exitOK, json+" written")
	holds(t, dir, "rdma.dev-hca.json")

	file := filepath.Join(dir, "my.yaml")
	generateTo(t, "roce-lag", file, "--kind", "example.com/nic").expect(t, exitOK, file+" written")
	generateTo(t, "roce-lag", dir, "--kind", "example.com/nic").
		expect(t, exitOK, filepath.Join(dir, "example.com-nic.yaml")+" written")
	holds(t, dir, "example.com-nic.yaml", "my.yaml", "rdma.dev-hca.json")
	test.Eq(t, "", generateTo(t, "roce-lag", dir).stdout, test.Sprint("a file was asked for, and standard output"))
}

// TestOutputEqualsStdout: a file has what is printed, byte for byte.
func TestOutputEqualsStdout(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		file := filepath.Join(t.TempDir(), "x."+format)
		generateTo(t, "hgx-h100", file).expect(t, exitOK, "written")
		got, err := os.ReadFile(file)
		must.NoError(t, err)
		r := cdigen(t, "generate", "--no-hook", "--host-root", host(t, "hgx-h100"), "--output", format)
		test.Eq(t, string(got), r.stdout, test.Sprintf("%s: the file differs from standard output", format))
	}
}

// TestOutputOfAnotherRoot: the spec of another root does not become that of this system.
func TestOutputOfAnotherRoot(t *testing.T) {
	for _, to := range []string{"/etc/cdi", "/etc/cdi/", "/var/run/cdi", "/run/cdi", "/etc/cdi/x.json"} {
		generateTo(t, "roce-lag", to).expect(t, exitUsage, "is of this system, and --host-root is ")
	}
}

// oldSpec is a spec of ours from other days, as JSON and as YAML.
const oldSpec = `{"cdiVersion": "0.3.0", "kind": "rdma.dev/hca", "devices": []}`

// TestOutputWithoutDevices: on a host that has lost its devices our own spec goes,
// in either format, and nothing else.
func TestOutputWithoutDevices(t *testing.T) {
	for _, machine := range []string{"none", "empty-classes"} {
		for _, ext := range []string{"yaml", "json"} {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "nvidia.yaml"), "not ours", 0o644)
			put(t, filepath.Join(dir, "rdma.dev-hca_x.json"), "not ours either", 0o644)
			generateTo(t, machine, dir).expect(t, exitNothing, "no RDMA device that a container can be given")
			holds(t, dir, "nvidia.yaml", "rdma.dev-hca_x.json")
			put(t, filepath.Join(dir, "rdma.dev-hca."+ext), oldSpec, 0o644)
			generateTo(t, machine, dir).expect(t, exitNothing, filepath.Join(dir, "rdma.dev-hca")+
				" removed: its devices are gone")
			holds(t, dir, "nvidia.yaml", "rdma.dev-hca_x.json")
		}
		absent := filepath.Join(t.TempDir(), "cdi")
		generateTo(t, machine, absent).expect(t, exitNothing, "no RDMA device")
		if _, err := os.Stat(absent); err == nil {
			t.Error("a directory was made for nothing")
		}
	}
}

// TestOutputKept: the file stays when devices are there and not chosen, not
// readable, or not to be had in this mode.
func TestOutputKept(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "rdma.dev-hca.yaml"), oldSpec, 0o644)
	broken := t.TempDir()
	put(t, filepath.Join(broken, "sys/class/infiniband"), "no directory", 0o644)
	cdigen(t, "generate", "--no-hook", "--host-root", broken, "--to", dir).
		expect(t, exitIO, "the RDMA devices could not be read: list class/infiniband: ")
	generateTo(t, "roce-lag", dir, "--exclude", "*").
		expect(t, exitNotChosen, "of the devices that --device and --exclude leave")
	generateTo(t, "misbehaving", dir, "--device", "mlx5_7").expect(t, exitIO, "HCA mlx5_7")
	generateTo(t, "soft-pci", dir).expect(t, exitExclusive, "exclusive network namespace mode")
	generateTo(t, "roce-lag", dir, "--device", "mlx5_7").
		expect(t, exitUsage, `no device matches "mlx5_7": have mlx5_bond_0`)
	got, err := os.ReadFile(filepath.Join(dir, "rdma.dev-hca.yaml"))
	if err != nil || string(got) != oldSpec {
		t.Errorf("the file has %q, error %v", got, err)
	}
}

// TestOutputReadOnly: an error that names the file, and the old file.
func TestOutputReadOnly(t *testing.T) {
	if !mounttest.Isolated(t) {
		return
	}
	dir := t.TempDir()
	mounttest.Tmpfs(t, dir, "size=64k")
	file := filepath.Join(dir, "rdma.dev-hca.yaml")
	put(t, file, oldSpec, 0o644)
	mounttest.ReadOnly(t, dir)
	generateTo(t, "roce-lag", dir).expect(t, exitIO, "read-only file system")
	generateTo(t, "roce-lag", dir).expect(t, exitIO, file)
	generateTo(t, "none", dir).expect(t, exitIO, "remove CDI spec: remove "+file+": read-only file system")
	cdigen(t, "remove", "--from", dir).expect(t, exitIO, "read-only file system")
	generateTo(t, "roce-lag", filepath.Join(dir, "cdi")).expect(t, exitIO, "make CDI directory: mkdir "+dir+
		"/cdi: read-only file system")
	holds(t, dir, "rdma.dev-hca.yaml")
}

// TestOutputFullDisk: an error that names the file, the old file, nothing else.
func TestOutputFullDisk(t *testing.T) {
	if !mounttest.Isolated(t) {
		return
	}
	dir := t.TempDir()
	mounttest.Tmpfs(t, dir, "size=8k")
	put(t, filepath.Join(dir, "rdma.dev-hca.yaml"), oldSpec, 0o644)
	put(t, filepath.Join(dir, "filler"), strings.Repeat("x", 4096), 0o644)
	generateTo(t, "hgx-h100", dir).expect(t, exitIO, `write "`+dir+`/rdma.dev-hca.yaml": write `)
	generateTo(t, "hgx-h100", dir).expect(t, exitIO, "no space left on device")
	if got, err := os.ReadFile(filepath.Join(dir, "rdma.dev-hca.yaml")); err != nil || string(got) != oldSpec {
		t.Errorf("the file has %q, error %v", got, err)
	}
	holds(t, dir, "filler", "rdma.dev-hca.yaml")
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "other.yaml"), "", 0o644)
	for _, format := range []string{"json", "yaml"} {
		// --format is the first name of --output, for scripts.
		generateTo(t, "roce-lag", dir, "--format", format).expect(t, exitOK, "written")
		cdigen(t, "remove", "--from", dir, "--dry-run").
			expect(t, exitOK, "would remove the spec of kind rdma.dev/hca from "+dir)
		holds(t, dir, "other.yaml", "rdma.dev-hca."+format)
		cdigen(t, "remove", "--from", dir).expect(t, exitOK, "removed the spec of kind rdma.dev/hca from "+dir)
		cdigen(t, "remove", "--from", dir, "--dry-run").expect(t, exitNothing, "no spec of kind rdma.dev/hca in "+dir)
		cdigen(t, "remove", "--from", dir).expect(t, exitNothing, "no spec of kind rdma.dev/hca in "+dir)
	}
	generateTo(t, "roce-lag", dir, "--kind", "example.com/nic").expect(t, exitOK, "written")
	cdigen(t, "remove", "--from", dir).expect(t, exitNothing, "no spec of kind rdma.dev/hca")
	cdigen(t, "remove", "--from", dir, "--kind", "example.com/nic").expect(t, exitOK, "example.com/nic")
	holds(t, dir, "other.yaml")
	cdigen(t, "remove", "--from", filepath.Join(dir, "absent")).expect(t, exitNothing, "no spec")
}

func TestValidate(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	generateTo(t, "roce-lag", file("good.yaml")).expect(t, exitOK, "written")
	good, err := os.ReadFile(file("good.yaml"))
	must.NoError(t, err)
	put(t, file("twin.yaml"), string(good), 0o644)
	put(t, file("elsewhere/twin.yaml"), string(good), 0o644)
	put(t, file("spec.yml"), string(good), 0o644)
	put(t, file("secret.yaml"), string(good), 0o600)
	put(t, file("low.yaml"), strings.Replace(string(good), "name: all", "name: \"0\"", 1), 0o644)
	put(t, file("field.yaml"), strings.Replace(string(good), "permissions: rw", "hostpath: /dev/x", 1), 0o644)
	put(t, file("empty.json"), "", 0o644)
	put(t, file("elsewhere/README"), "no spec", 0o644)
	put(t, file("pair/a.yaml"), string(good), 0o644)
	put(t, file("pair/b.yaml"), string(good), 0o644)
	put(t, file("yml/a.yml"), string(good), 0o644)
	put(t, file("nothing/sub/a.yaml"), string(good), 0o644)
	must.NoError(t, syscall.Mkfifo(file("fifo.json"), 0o644))
	for _, c := range []struct {
		files []string
		code  int
		says  string
		valid int
	}{
		{[]string{"good.yaml"}, exitOK, "", 1},
		{[]string{"good.yaml", "good.yaml", "elsewhere/twin.yaml"}, exitOK, "", 3},
		{[]string{"good.yaml", "elsewhere/../good.yaml"}, exitOK, "", 2},
		{[]string{"elsewhere"}, exitOK, "", 1},
		{[]string{"pair"}, exitInvalid, "rdma.dev/hca=mlx5_bond_0 also stands in \"" + file("pair/a.yaml"), 1},
		{[]string{"yml"}, exitInvalid, "rename it", 0},
		{[]string{"nothing"}, exitInvalid, file("nothing") + "\": no file in it ends in .json or .yaml", 0},
		{[]string{"good.yaml", "twin.yaml"}, exitInvalid, "rdma.dev/hca=mlx5_bond_0 also stands in \"" + file("good.yaml"),
			1},
		{[]string{"spec.yml"}, exitInvalid, "runtimes read only files that end in .json or .yaml; rename it", 0},
		{[]string{"secret.yaml"}, exitInvalid, "mode 0600 hides it from rootless podman: chmod 0644 it", 0},
		{[]string{"low.yaml"}, exitInvalid, "0.5.0", 0},
		{[]string{"field.yaml"}, exitInvalid, "hostpath", 0},
		{[]string{"empty.json"}, exitInvalid, "validate \"" + file("empty.json"), 0},
		{[]string{"fifo.json"}, exitInvalid, "no regular file", 0},
		{[]string{"absent.json"}, exitIO, "validate \"" + file("absent.json"), 0},
		{[]string{"absent.json", "spec.yml", "good.yaml"}, exitInvalid, "no such file", 1},
	} {
		args := []string{"validate"}
		for _, name := range c.files {
			args = append(args, file(name))
		}
		r := cdigen(t, args...)
		r.expect(t, c.code, c.says)
		test.Eq(t, c.valid, strings.Count(r.stdout, ": valid, CDI 0.3.0, kind rdma.dev/hca, 3 devices\n"),
			test.Sprintf("validate %s prints %q", c.files, r.stdout))
	}
}
