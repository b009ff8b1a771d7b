package main

import (
	"path/filepath"
	"testing"
)

// TestLocalTarget: --target podman is the podman of this host.
func TestLocalTarget(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	put(t, filepath.Join(dir, "podman"), "#!/bin/sh\necho podman version 3.4.4\n", 0o755)
	var flags specFlags
	flags.target, flags.host.root = "podman", "/"
	if target, err := flags.lookupTarget(t.Context()); err != nil || target.String() != "podman-3.4.4" {
		t.Errorf("the podman of this host is %v, %v", target, err)
	}
}
