package main

import (
	"bytes"
	"os"
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

func TestListNamesEveryMachine(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(runOK(t, "list")), "\n")
	names := fixture.Names()
	must.Eq(t, len(names), len(lines), must.Sprint("list"))
	for i, name := range names {
		if !strings.HasPrefix(lines[i], name+" ") || !strings.HasSuffix(lines[i], ".") {
			t.Errorf("line %q, want %q and its first sentence", lines[i], name)
		}
	}
}

func TestGenerateTwice(t *testing.T) {
	dir := t.TempDir()
	if out := runOK(t, "generate", "--machines", dir); strings.Count(out, "wrote ") < 15 {
		t.Errorf("generate into an empty directory says %q", out)
	}
	test.Eq(t, "", runOK(t, "generate", "--machines", dir), test.Sprint("the second generate"))
}

// TestCaptureOfAnExtraction goes the whole way: a machine to a disk, and back with the command.
func TestCaptureOfAnExtraction(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	description := filepath.Join(dir, "description.txt")
	must.NoError(t, os.WriteFile(description, []byte("A copy.\n"), 0o600))
	// A machine without unreadable files: a disk cannot say them, only a kernel can.
	archive := "-- sys/class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0 --\n" +
		"-- sys/class/misc/ --\n-- sys/class/net/ --\n" +
		"-- sys/devices/virtual/infiniband/rxe0/fw_ver --\n\n"
	m, err := fixture.Parse("copy", []byte(archive))
	must.NoError(t, err)
	must.NoError(t, m.Extract(root))
	out := runOK(t, "capture", "--root", root, "--name", "copy", "--description", description, "--machines", dir)
	test.StrHasPrefix(t, "wrote copy", out, test.Sprint("capture"))
	got, err := os.ReadFile(filepath.Join(dir, "copy.txtar"))
	must.NoError(t, err)
	test.Eq(t, "A copy.\n\n"+archive, string(got), test.Sprintf("archive is\n%s", got))
	again := runOK(t, "capture", "--root", root, "--name", "copy", "--machines", dir)
	test.StrHasPrefix(t, "unchanged copy", again, test.Sprint("the second capture"))
}

func TestExtract(t *testing.T) {
	dir := t.TempDir()
	runOK(t, "extract", "roce-lag", dir)
	if _, err := os.Stat(filepath.Join(dir, "sys/class/infiniband/mlx5_bond_0/node_guid")); err != nil {
		t.Error(err)
	}
}

func TestSynth(t *testing.T) {
	dir := t.TempDir()
	runOK(t, "synth", "--functions", "3", dir)
	entries, err := os.ReadDir(filepath.Join(dir, "sys/class/infiniband"))
	if err != nil || len(entries) != 3 {
		t.Errorf("the host has the HCAs %v, %v, want 3", entries, err)
	}
}

func TestErrors(t *testing.T) {
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"no such fixture":                     {"extract", "no-such", empty},
		"want 1 to":                           {"synth", "--functions", "0", empty},
		"required flag":                       {"capture"},
		"needs --description":                 {"capture", "--name", "new", "--machines", empty},
		"lower-case":                          {"capture", "--name", "New", "--machines", empty},
		"no such file":                        {"import", "no.tar", "--name", "new", "--machines", empty},
		"run in the root of the checkout":     {"generate", "--machines", filepath.Join(empty, "gone")},
		"accepts 2 arg(s), received 1":        {"extract", "none"},
		"unknown command \"x\" for \"machine": {"x"},
	} {
		var out, errOut bytes.Buffer
		test.ErrorContains(t, run(args, &out, &errOut), want, test.Sprintf("machine %s", strings.Join(args, " ")))
	}
}
