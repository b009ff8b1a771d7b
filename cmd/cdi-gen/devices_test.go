package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestDevices: every device that a runtime finds, whoever defines it, and what it refuses.
func TestDevices(t *testing.T) {
	root := t.TempDir()
	copyHost(t, "roce-lag", root)
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

// TestSpecOfOtherHCA: the kernel has numbered its nodes anew since the spec was written. No command gives the other HCA
// in silence.
func TestSpecOfOtherHCA(t *testing.T) {
	root := t.TempDir()
	copyHost(t, "roce-sriov", root)
	static := filepath.Join(root, "etc/cdi")
	generate := []string{"generate", "--host-root", root, "--no-hook", "--names", "ibdev", "--to", static}
	cdigen(t, generate...).expect(t, exitOK, "written")
	cdigen(t, "devices", "--host-root", root).expect(t, exitOK, "")
	verbs := filepath.Join(root, "sys/class/infiniband_verbs")
	for _, move := range [][2]string{{"uverbs0", "x"}, {"uverbs1", "uverbs0"}, {"x", "uverbs1"}} {
		if err := os.Rename(filepath.Join(verbs, move[0]), filepath.Join(verbs, move[1])); err != nil {
			t.Fatal(err)
		}
	}
	const says = `rdma.dev/hca=mlx5_0 in "/etc/cdi/rdma.dev-hca.yaml": it is for pci-0000-3b-00-0, and uverbs0 belongs to ` +
		"pci-0000-3b-00-1 (mlx5_1) now"
	cdigen(t, "devices", "--host-root", root).expect(t, exitDrift, says)
	r := cdigen(t, "list", "--host-root", root, "-o", "name", "--device", "mlx5_[012]")
	r.expect(t, exitDrift, says)
	if r.stdout != "rdma.dev/hca=mlx5_2\n" {
		t.Errorf("names %q", r.stdout)
	}
	cdigen(t, "apply", newBundle(t), "--host-root", root, "--device", "mlx5_0").expect(t, exitDrift, says)
	cdigen(t, append(generate, "--check")...).expect(t, exitDrift, "differs")
	if err := os.RemoveAll(filepath.Join(root, "sys")); err != nil {
		t.Fatal(err)
	}
	cdigen(t, "devices", "--host-root", root).expect(t, exitOK, "whether the specs fit the host's HCAs is not known: ")
}

// TestMissingNodes: sysfs has all HCAs, and /dev some nodes: what is missing is left out, and said.
func TestMissingNodes(t *testing.T) {
	for _, test := range []struct {
		dev      string // entries of /dev
		code     int
		says     string
		has, not string // in the spec
		listed   int    // the exit code of list
	}{
		{"null infiniband/uverbs0 infiniband/rdma_cm infiniband/umad0", exitPartial, "HCA mlx5_1 lacks its uverbs node in " +
			"/dev/infiniband: udevadm trigger", "/uverbs0", "/uverbs1", exitPartial},
		{"infiniband/uverbs0 infiniband/uverbs1", exitPartial, "node rdma_cm is left out: /dev/infiniband lacks it", "/uverbs1",
			"rdma_cm", exitPartial},
		{"infiniband/uverbs0 infiniband/uverbs1 infiniband/rdma_cm infiniband/umad1", exitPartial,
			"node umad0 is left out: /dev/infiniband lacks it", "/umad1", "/umad0", exitPartial},
		{"null", exitNotChosen, "HCA mlx5_0 lacks its uverbs node", "", "", exitNothing}, // a container without devices
		{"", exitOK, "", "/uverbs1", "missing", exitOK},                                  // /dev is not to be seen
	} {
		root := t.TempDir()
		copyHost(t, "roce-sriov", root)
		for _, name := range strings.Fields(test.dev) {
			put(t, filepath.Join(root, "dev", name), "", 0o666)
		}
		r := cdigen(t, "generate", "--host-root", root, "--no-hook", "--device", "mlx5_[01]", "--nodes", "verbs,cm,mad")
		r.expect(t, test.code, test.says)
		if !strings.Contains(r.stdout, test.has) || test.not != "" && strings.Contains(r.stdout, test.not) {
			t.Errorf("/dev with %s: %s", test.dev, r.stdout)
		}
		r = cdigen(t, "list", "--host-root", root, "--device", "mlx5_[01]")
		if r.code != test.listed || test.listed == exitPartial && !strings.Contains(r.stderr, "/dev/infiniband lacks nodes that the kernel has: ") {
			t.Errorf("/dev with %s: list ends with %d, %s", test.dev, r.code, r.stderr)
		}
	}
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
