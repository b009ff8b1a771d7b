package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestRelativeSpecDir: a relative directory of specs is one of the working directory, in devices as in validate.
func TestRelativeSpecDir(t *testing.T) {
	dir := t.TempDir()
	generateTo(t, "roce-lag", filepath.Join(dir, "specs")).expect(t, exitOK, "written")
	t.Chdir(dir)
	cdigen(t, "validate", "specs").expect(t, exitOK, "")
	// Where the tests run, there is no such HCA.
	if r := cdigen(t, "devices", "--spec-dir", "specs", "-o", "name"); r.stdout == "" {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
	cdigen(t, "devices", "--spec-dir", "specs", "--host-root", dir).
		expect(t, exitUsage, `--spec-dir "specs" is relative: with --host-root, name a path on that host`)
}

// TestLocalTarget: --target podman is the podman of this host.
func TestLocalTarget(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	cdigen(t, "generate", "--no-hook", "--target", "podman").
		expect(t, exitUsage, "is it installed? if so, name the version, such as --target podman-5.4")
	cdigen(t, "generate", "--no-hook", "--target", "podman", "--host-root", host(t, "roce-lag")).
		expect(t, exitUsage, "the version of podman below --host-root is not known: name the version")
	put(t, filepath.Join(dir, "podman"), "#!/bin/sh\necho podman version 3.4.4\n", 0o755)
	var r recipeFlags
	r.target, r.host.root = "podman", "/"
	if target, err := r.lookupTarget(t.Context()); err != nil || target.String() != "podman-3.4.4" {
		t.Errorf("the podman of this host is %v, %v", target, err)
	}
}

// TestValidateStdin: - is standard input.
func TestValidateStdin(t *testing.T) {
	spec := cdigen(t, "generate", "--no-hook", "--host-root", host(t, "roce-lag")).stdout
	validate := func(input string) (string, error) {
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs([]string{"validate", "-"})
		root.SetIn(strings.NewReader(input))
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := validate(spec); err != nil ||
		!strings.HasPrefix(out, "standard input: valid, CDI 0.3.0, kind rdma.dev/hca, ") {
		t.Errorf("a good spec: %v, %s", err, out)
	}
	if out, err := validate("kind: x\n"); err == nil || !strings.Contains(err.Error(), "validate -: ") {
		t.Errorf("a bad spec: %v, %s", err, out)
	}
}
