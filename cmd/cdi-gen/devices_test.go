package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestDevices: every device that a runtime finds, whoever defines it, and what it refuses.
func TestDevices(t *testing.T) {
	root := t.TempDir()
	static, dynamic := filepath.Join(root, "etc/cdi"), filepath.Join(root, "var/run/cdi")
	cdigen(t, "devices", "--host-root", root).expect(t, exitOK,
		"no CDI device in /etc/cdi and /var/run/cdi; cdi-gen generate --to /etc/cdi writes those of RDMA")
	generateTo(t, "roce-lag", static, "--no-all").expect(t, exitOK, "written")
	generateTo(t, "roce-lag", dynamic, "--no-all", "--names", "pci").expect(t, exitOK,
		"warning: "+static+"/rdma.dev-hca.yaml also defines rdma.dev/hca=pci-0000-3b-00-0: of one device in both "+
			"directories, runtimes take the one in /var/run/cdi")
	put(t, filepath.Join(static, "gpu.yaml"), gpuSpec, 0o644)
	r := cdigen(t, "devices", "--host-root", root)
	r.expect(t, exitOK, "")
	checkGolden(t, "devices.txt", r.stdout)
	test.Eq(t, "nvidia.com/gpu=gpu0\nrdma.dev/hca=mlx5_bond_0\nrdma.dev/hca=pci-0000-3b-00-0\n", cdigen(t, "devices", "--host-root", root, "-o", "name", "--spec-dir", "/etc/cdi").stdout,
		test.Sprint("names"))
	put(t, filepath.Join(static, "gpu2.json"), gpuSpec, 0o644)
	put(t, filepath.Join(static, "bad.json"), "{", 0o644)
	for _, format := range []string{"table", "json", "yaml", "name"} {
		r = cdigen(t, "devices", "--host-root", root, "-o", format)
		r.expect(t, exitInvalid, "runtimes refuse nvidia.com/gpu=gpu0, which more than one file defines: "+
			"/etc/cdi/gpu.yaml and /etc/cdi/gpu2.json; remove all but one")
		test.StrContains(t, r.stderr, `runtimes refuse "/etc/cdi/bad.json": `, test.Sprint("standard"))
	}
	cdigen(t, "devices", "-o", "xml").expect(t, exitUsage, "want table, json, yaml or name")
}

// TestGenerateWarnsOfRivals: a file of the same directory with the same devices makes both useless.
func TestGenerateWarnsOfRivals(t *testing.T) {
	dir := t.TempDir()
	generateTo(t, "hgx-h100", filepath.Join(dir, "old.yaml")).expect(t, exitOK, "written")
	r := generateTo(t, "hgx-h100", dir)
	r.expect(t, exitOK, "old.yaml also defines rdma.dev/hca=all, ")
	test.StrContains(t, r.stderr, " more: runtimes refuse a device that two files of one directory define",
		test.Sprint("standard"))
	must.NoError(t, os.Remove(filepath.Join(dir, "old.yaml")))
	r = generateTo(t, "hgx-h100", dir)
	r.expect(t, exitOK, "warning: no container runtime here reads "+dir) // nor would a rival matter
	test.StrNotContains(t, r.stderr, "runtimes refuse", test.Sprint("standard"))
	generateTo(t, "hgx-h100", dir, "--output", "json").expect(t, exitOK, "written")
}
