package main

import (
	"path/filepath"
	"testing"
)

// TestRelativeSpecDir: a relative directory of specs is one of the working directory, in devices as in validate.
func TestRelativeSpecDir(t *testing.T) {
	dir := t.TempDir()
	generateTo(t, "roce-lag", filepath.Join(dir, "specs")).expect(t, exitOK, "written")
	t.Chdir(dir)
	cdigen(t, "validate", "specs").expect(t, exitOK, "")
	if r := cdigen(t, "devices", "--spec-dir", "specs", "-o", "name"); r.code != exitOK || r.stdout == "" {
		t.Errorf("exit code %d, %q, %s", r.code, r.stdout, r.stderr)
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
