package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// TestReport: one file has all of a host, nothing that identifies it, and becomes a fixture machine by one command.
func TestReport(t *testing.T) {
	root := rdmatest.Root(t, "roce-sriov")
	put(t, filepath.Join(root, "etc/hostname"), "secret17.example.com\n", 0o644)
	put(t, filepath.Join(root, "proc/sys/kernel/osrelease"), "6.12.9-secret17\n", 0o644)
	put(t, filepath.Join(root, "home/alice/topo.xml"), "x", 0o644)
	generateTo(t, "roce-sriov", filepath.Join(root, "etc/cdi"), "--env", "TOKEN=geheim", "--names", "guid", "--device",
		"mlx5_0").
		expect(t, exitOK, "written")
	put(t, filepath.Join(root, "etc/cdi/gpu.yaml"), gpuSpec, 0o644)
	put(t, filepath.Join(root, "etc/cdi/bad.yaml"), "/dev/infiniband: geheim", 0o644)
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	args := []string{"report", "--host-root", root, "--to"}
	cdigen(t, append(args, file)...).expect(t, exitOK,
		"written; read it before you share it: tar -xzf "+file+" && grep -r . cdi-gen-report")
	files := untar(t, []byte(read(t, file)))
	var others []string
	guid := strings.TrimSpace(read(t, filepath.Join(root, "sys/class/infiniband/mlx5_0/node_guid")))
	for name, text := range files {
		if !strings.Contains(name, "/sys/class/") && !strings.Contains(name, "/sys/devices/") &&
			!strings.Contains(name, "/sys/bus/") && !strings.Contains(name, "/sys/module/") {
			others = append(others, strings.TrimPrefix(name, "cdi-gen-report/"))
		}
		for _, secret := range []string{"secret17", "geheim", guid, strings.ReplaceAll(guid, ":", ""), "alice", "25:10:00"} {
			test.StrNotContains(t, text, secret, test.Sprint(name))
		}
	}
	slices.Sort(others)
	test.Eq(t, []string{"README", "doctor.json", "etc/cdi/rdma.dev-hca.yaml", "proc/sys/kernel/osrelease", "sys/",
		"unreadable.txt", "versions.txt"}, others)
	if !strings.Contains(files["cdi-gen-report/etc/cdi/rdma.dev-hca.yaml"], "TOKEN=(hidden)") ||
		!strings.Contains(files["cdi-gen-report/proc/sys/kernel/osrelease"], "6.12.9-host") {
		t.Errorf("files %q", files)
	}
	again := untar(t, []byte(cdigen(t, append(args, "-")...).stdout))
	test.Eq(t, slices.Sorted(maps.Keys(files)), slices.Sorted(maps.Keys(again)), test.Sprint("standard output"))
	unpacked(t, file)
	imported(t, file)
}

// unpacked checks that tar makes a root directory of a report, on which the commands work.
func unpacked(t *testing.T, file string) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("tar", "-xzf", file, "-C", dir).CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s", out))
	root := filepath.Join(dir, "cdi-gen-report")
	for _, command := range [][]string{{"generate", "--no-hook", "--allow-absent"}, {"doctor"}} {
		r := cdigen(t, append(command, "--host-root", root)...)
		test.StrContains(t, r.stdout, "mlx5_0", test.Sprintf("%q: %+v", command, r))
	}
}

// imported makes a machine of a report, and checks that it is a whole one.
func imported(t *testing.T, file string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "run", "../../tools/machine", "import", file, "--name", "reported", "--machines", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m, err := fixture.Parse("reported", []byte(read(t, filepath.Join(dir, "reported.txtar"))))
	must.NoError(t, err)
	again := t.TempDir()
	must.NoError(t, m.Extract(again))
	want := cdigen(t, "list", "--host-root", host(t, "roce-sriov"))
	test.EqOp(t, want, cdigen(t, "list", "--host-root", again), test.Sprint("the machine lists"))
}

func untar(t *testing.T, data []byte) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	must.NoError(t, err)
	files := map[string]string{}
	for tr := tar.NewReader(zipped); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must.NoError(t, err)
		text, err := io.ReadAll(tr)
		must.NoError(t, err)
		files[h.Name] = string(text)
	}
}
