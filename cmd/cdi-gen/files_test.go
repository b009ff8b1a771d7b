package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/mounttest"
)

// generateTo runs generate on a machine with an output.
func generateTo(t testing.TB, machine, output string, args ...string) result {
	t.Helper()
	return cdigen(t, append([]string{"generate", "--no-hook", "--host-root", host(t, machine), "--to", output},
		args...)...)
}

// oldSpec is a spec of ours from other days, as JSON and as YAML.
const oldSpec = `{"cdiVersion": "0.3.0", "kind": "rdma.dev/hca", "devices": []}`

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
