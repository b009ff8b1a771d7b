package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// linkedSpecs makes a host whose /etc/cdi is a link to a directory with a spec.
func linkedSpecs(t *testing.T) (root, dir string) {
	t.Helper()
	root = t.TempDir()
	dir = filepath.Join(root, "etc/cdi")
	generateTo(t, "roce-lag", dir).expect(t, exitOK, "written")
	must.NoError(t, errors.Join(os.Rename(dir, dir+".real"), os.Symlink("cdi.real", dir)))
	return root, dir
}

// TestLinkedDirectory: CDI libraries before 1.1.1 do not follow a directory that is a link, and each command says so.
func TestLinkedDirectory(t *testing.T) {
	root, dir := linkedSpecs(t)
	const says = "is a symbolic link: runtimes with a CDI library before 1.1.1 do not follow it"
	cdigen(t, "devices", "--host-root", root).expect(t, exitInvalid, says)
	cdigen(t, "validate", dir).expect(t, exitInvalid, says)
	cdigen(t, "validate", filepath.Join(dir, "rdma.dev-hca.yaml")).expect(t, exitInvalid, says)
	cdigen(t, "validate", filepath.Join(root, "etc/cdi.real")).expect(t, exitOK, "")
	generateTo(t, "roce-lag", dir).expect(t, exitOK, says)
	generateTo(t, "roce-lag", dir, "--target", "podman-4.3").expect(t, exitUsage,
		"podman-4.3 does not read it: it is a symbolic link, which its CDI library 0.5.2 does not follow")
	generateTo(t, "roce-lag", dir, "--target", "containerd-2.4").expect(t, exitOK, says)
	generateTo(t, "roce-lag", filepath.Join(t.TempDir(), "var/run/cdi"), "--target", "podman-5.5").expect(t, exitUsage,
		"podman-5.5 reads /etc/cdi only")
	file := t.TempDir()
	put(t, filepath.Join(file, "etc/cdi"), "", 0o644)
	cdigen(t, "devices", "--host-root", file).expect(t, exitInvalid, `"/etc/cdi" is no directory`)
}

// TestKindsOfOneLetter: runtimes with a CDI library before 1.1.1 panic on them, so nothing writes or approves them.
func TestKindsOfOneLetter(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range []string{"rdma.dev/h", "r/hca", "a/b"} {
		generateTo(t, "roce-lag", dir, "--kind", kind).expect(t, exitUsage, "is one letter")
		generateTo(t, "roce-lag", dir, "--kind", kind, "--target", "containerd-2.4").expect(t, exitUsage, "is one letter")
		file := filepath.Join(dir, "s.yaml")
		put(t, file, strings.Replace(gpuSpec, "nvidia.com/gpu", kind, 1), 0o644)
		cdigen(t, "validate", file).expect(t, exitInvalid, "is one letter, and before 1.1.1 the CDI library panics on it")
		put(t, filepath.Join(dir, "etc/cdi/s.yaml"), read(t, file), 0o644)
		cdigen(t, "devices", "--host-root", dir).expect(t, exitInvalid, "is one letter")
		must.NoError(t, errors.Join(os.Remove(file), os.Remove(filepath.Join(dir, "etc/cdi/s.yaml"))))
	}
}

// TestUnquoted: a name without quotes is another device for an older CDI library.
func TestUnquoted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	for _, name := range []string{"on", "No", "0x10", "1e3", "07"} {
		put(t, file, strings.Replace(gpuSpec, "gpu0", name, 1), 0o644)
		cdigen(t, "validate", file).expect(t, exitInvalid,
			"stands without quotes; CDI libraries before 1.1.1 read another text")
	}
	put(t, file, strings.Replace(gpuSpec, "gpu0", `"on"`, 1), 0o644)
	cdigen(t, "validate", file).expect(t, exitOK, "")
}

// TestOtherDirectories: a runtime that is told to read other directories is named where a spec is written and shown.
func TestOtherDirectories(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "etc/cdi")
	put(t, filepath.Join(root, "etc/docker/daemon.json"), `{"cdi-spec-dirs": ["/opt/\u001b[1mcdi"]}`, 0o644)
	const says = `docker does not read /etc/cdi: /etc/docker/daemon.json names /opt/\x1b[1mcdi for CDI specs`
	generateTo(t, "roce-lag", dir).expect(t, exitOK, says)
	cdigen(t, "devices", "--host-root", root).expect(t, exitOK, says)
	cdigen(t, "validate", dir).expect(t, exitOK, says)
	cdigen(t, "configure", "docker", "--host-root", root, "--runtime-version", "28.3").expect(t, exitOK,
		`next: cdi-gen generate --to`)
}
