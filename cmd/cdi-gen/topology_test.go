package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// runTopology runs the verb on a fixture machine.
func runTopology(t *testing.T, machine string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := rdmatest.Root(t, machine)
	var out, talk bytes.Buffer
	code = run(t.Context(), append([]string{"topology", "--host-root", root}, args...), &out, &talk)
	return code, out.String(), talk.String()
}

// TestTopologyOutputs: each --output is what package topology writes, whose golden
// files say the rest.
func TestTopologyOutputs(t *testing.T) {
	golden := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "pkg", "topology", "testdata", name))
		must.NoError(t, err)
		return string(b)
	}
	tree, matrix, _ := strings.Cut(golden("roce-sriov.txt"), "\n\n")
	ascii, _, _ := strings.Cut(golden("hgx-h100.ascii.txt"), "\n\n")
	for _, c := range []struct {
		machine string
		args    []string
		want    string
	}{
		{"roce-sriov", nil, golden("roce-sriov.txt")},
		{"roce-sriov", []string{"-o", "tree"}, tree + "\n"},
		{"roce-sriov", []string{"-o", "matrix"}, matrix},
		{"roce-sriov", []string{"-o", "svg"}, golden("roce-sriov.svg")},
		{"soft", nil, golden("soft.txt")},
		{"hgx-h100", []string{"-o", "tree", "--ascii"}, ascii + "\n"},
		{"hgx-h100", []string{"--ascii"}, golden("hgx-h100.ascii.txt")},
	} {
		code, stdout, stderr := runTopology(t, c.machine, c.args...)
		if code != exitOK || stdout != c.want || stderr != "" {
			t.Errorf("%s %q: exit code %d, %s\n%s", c.machine, c.args, code, stderr, stdout)
		}
	}
}

// TestTopologyForPrograms: JSON and YAML say the same.
func TestTopologyForPrograms(t *testing.T) {
	_, stdout, _ := runTopology(t, "hgx-h100", "-o", "json")
	var got struct {
		Devices   []struct{ Name string }
		Distances struct{ Cells [][]string }
	}
	must.NoError(t, json.Unmarshal([]byte(stdout), &got))
	if len(got.Devices) != 17 || len(got.Distances.Cells) != 17 || got.Distances.Cells[0][8] != "PIX" {
		t.Errorf("devices %v, distances %v", got.Devices, got.Distances.Cells)
	}
	_, stdout, _ = runTopology(t, "hgx-h100", "-o", "yaml")
	for _, want := range []string{"\nnumaNodes:\n", "\n  name: GPU0\n"} {
		test.StrContains(t, stdout, want, test.Sprint("YAML without"))
	}
}

func TestTopologyExitCodes(t *testing.T) {
	for _, c := range []struct {
		machine string
		args    []string
		code    int
		stderr  string // a part of it
		stdout  bool
	}{
		{"none", nil, exitNothing, "no RDMA device on this host", false},
		{"none", []string{"-o", "svg"}, exitNothing, "no RDMA device on this host", false},
		{"misbehaving", nil, exitPartial, "some devices are left out or incomplete", true},
		{"roce-sriov", []string{"-o", "png"}, exitUsage, `--output "png": want tree, matrix, svg, json or yaml`, false},
		{"roce-sriov", []string{"-o", "matrix", "--ascii"}, exitUsage, "--ascii is for the tree only", false},
		{"roce-sriov", []string{"--device", "mlx4_0"}, exitUsage, "mlx4_0", false},
		{"roce-sriov", []string{"extra"}, exitUsage, `unknown argument "extra"`, false},
	} {
		code, stdout, stderr := runTopology(t, c.machine, c.args...)
		if code != c.code || !strings.Contains(stderr, c.stderr) || (stdout != "") != c.stdout {
			t.Errorf("%s %q: exit code %d, want %d; stderr %q, stdout %q", c.machine, c.args, code, c.code, stderr,
				stdout)
		}
	}
}

// TestTopologyOfSome: --device leaves out other HCAs, and no GPU.
func TestTopologyOfSome(t *testing.T) {
	code, stdout, _ := runTopology(t, "hgx-h100", "-o", "tree", "--device", "mlx5_0")
	if code != exitOK || strings.Count(stdout, "mlx5_") != 1 || strings.Count(stdout, "GPU") != 8 {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
	// A VF chosen alone stands for itself.
	_, stdout, _ = runTopology(t, "roce-sriov", "-o", "tree", "--device", "mlx5_9")
	if !strings.Contains(stdout, "mlx5_9  0000:3b:01.1") || strings.Contains(stdout, "VFs") {
		t.Errorf("a VF alone:\n%s", stdout)
	}
}

// TestTopologyDiskFull: what cannot be written is an error, in each form.
func TestTopologyDiskFull(t *testing.T) {
	root := rdmatest.Root(t, "roce-sriov")
	for _, args := range []string{"", "-o tree", "-o matrix", "-o svg", "-o json", "-o yaml"} {
		var talk bytes.Buffer
		code := run(t.Context(), append([]string{"topology", "--host-root", root}, strings.Fields(args)...), fullDisk{},
			&talk)
		if code != exitIO || !strings.Contains(talk.String(), "write topology: no space left on device") {
			t.Errorf("%q: exit code %d, %q", args, code, talk.String())
		}
	}
}

// fullDisk is a disk without room.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
