package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

func runOK(t *testing.T, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	must.NoError(t, run(args, &out, &errOut), must.Sprintf("machine %s", strings.Join(args, " ")))
	return out.String()
}

func TestGenerateTwice(t *testing.T) {
	dir := t.TempDir()
	if out := runOK(t, "generate", "--machines", dir); strings.Count(out, "wrote ") < 15 {
		t.Errorf("generate into an empty directory says %q", out)
	}
	test.Eq(t, "", runOK(t, "generate", "--machines", dir), test.Sprint("the second generate"))
}

// TestImportOfAnExtraction goes the whole way: a machine to a disk, and back with the command.
func TestImportOfAnExtraction(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "sys.tar")
	must.NoError(t, os.WriteFile(filepath.Join(root, "README"), []byte("A copy.\n"), 0o600))
	// A machine without unreadable files: a disk cannot say them, only a kernel can.
	archive := "-- sys/class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0 --\n" +
		"-- sys/class/misc/ --\n-- sys/class/net/ --\n" +
		"-- sys/devices/virtual/infiniband/rxe0/fw_ver --\n\n"
	m, err := fixture.Parse("copy", []byte(archive))
	must.NoError(t, err)
	must.NoError(t, m.Extract(root))
	must.NoError(t, exec.Command("tar", "-C", root, "-cf", file, "sys", "README").Run())
	out := runOK(t, "import", file, "--name", "copy", "--machines", dir)
	test.StrHasPrefix(t, "wrote copy", out, test.Sprint("import"))
	got, err := os.ReadFile(filepath.Join(dir, "copy.txtar"))
	must.NoError(t, err)
	test.Eq(t, "A copy.\n\n"+archive, string(got), test.Sprintf("archive is\n%s", got))
	again := runOK(t, "import", file, "--name", "copy", "--machines", dir)
	test.StrHasPrefix(t, "unchanged copy", again, test.Sprint("the second import"))
}

func TestExtract(t *testing.T) {
	dir := t.TempDir()
	runOK(t, "extract", "roce-lag", dir)
	if _, err := os.Stat(filepath.Join(dir, "sys/class/infiniband/mlx5_bond_0/node_guid")); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	empty := t.TempDir()
	tar := filepath.Join(empty, "empty.tar")
	must.NoError(t, os.WriteFile(tar, make([]byte, 1024), 0o600))
	for want, args := range map[string][]string{
		"no such fixture":                     {"extract", "no-such", empty},
		"required flag":                       {"import", "x"},
		"lower-case":                          {"import", tar, "--name", "New", "--machines", empty},
		"no such file":                        {"import", "no.tar", "--name", "new", "--machines", empty},
		"run in the root of the checkout":     {"generate", "--machines", filepath.Join(empty, "gone")},
		"accepts 2 arg(s), received 1":        {"extract", "none"},
		"unknown command \"x\" for \"machine": {"x"},
	} {
		var out, errOut bytes.Buffer
		test.ErrorContains(t, run(args, &out, &errOut), want, test.Sprintf("machine %s", strings.Join(args, " ")))
	}
}
