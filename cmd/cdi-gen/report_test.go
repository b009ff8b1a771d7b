package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture"
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
	cdigen(t, append(args, file)...).expect(t, exitOK, "written; read it before you share it: tar -xzOf "+file)
	files := untar(t, []byte(read(t, file)))
	for _, name := range []string{"README", capture.MachineFile, "versions.txt", "doctor.json",
		"specs/etc/cdi/rdma.dev-hca.yaml"} {
		test.NotEq(t, "", files["cdi-gen-report/"+name], test.Sprintf("the report has no %s", name))
	}
	test.Eq(t, 5, len(files), test.Sprint("the report"))
	guid := strings.TrimSpace(read(t, filepath.Join(root, "sys/class/infiniband/mlx5_0/node_guid")))
	for name, text := range files {
		for _, secret := range []string{"secret17", "geheim", guid, strings.ReplaceAll(guid, ":", ""), "alice", "25:10:00"} {
			test.StrNotContains(t, text, secret, test.Sprint(name))
		}
	}
	if !strings.Contains(files["cdi-gen-report/specs/etc/cdi/rdma.dev-hca.yaml"], "TOKEN=(hidden)") ||
		!strings.Contains(files["cdi-gen-report/versions.txt"], "6.12.9-host") {
		t.Errorf("files %q", files)
	}
	test.Eq(t, read(t, file), cdigen(t, append(args, "-")...).stdout,
		test.Sprint("standard output differs from the file"))
	imported(t, file)
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
