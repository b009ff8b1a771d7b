package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
)

// TestDebug: --debug names the files that a command reads, and why it skips one. It prints no value, and nothing
// changes on standard output.
func TestDebug(t *testing.T) {
	root, dir := host(t, "roce-lag"), t.TempDir()
	config := filepath.Join(dir, "site.yaml")
	put(t, config, "apiVersion: rdma.dev/v1alpha1\nkind: HostConfig\nenv: {TOKEN: hidden}\n", 0o644)
	put(t, filepath.Join(dir, "cdi/bad.json"), "{", 0o644)
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"generate", "--config", config, "--hook-path", "/absent"},
			[]string{"read " + config, "skip " + root + "/absent: "}},
		{[]string{"generate", "--config", config, "--no-hook"},
			[]string{"read " + root + "/sys/class/infiniband/mlx5_bond_0"}},
		{[]string{"list"}, []string{"read " + root + "/sys/class/infiniband"}},
		{[]string{"topology"}, []string{"read " + root + "/sys/class/infiniband"}},
		{[]string{"doctor"}, []string{"skip " + root + "/", "read " + root + "/sys/class/infiniband"}},
	} {
		args := append(c.args, "--host-root", root)
		plain, debug := cdigen(t, args...), cdigen(t, append(args, "--debug")...)
		if debug.code != plain.code || debug.stdout != plain.stdout || strings.Contains(plain.stderr, "debug:") {
			t.Errorf("%q with --debug: exit code %d for %d, standard output\n%s", args, debug.code, plain.code,
				debug.stdout)
		}
		for _, want := range c.says {
			test.StrContains(t, debug.stderr, "debug: "+want, test.Sprintf("%q --debug has no %q", args, want))
		}
		test.StrNotContains(t, debug.stderr, "hidden", test.Sprintf("%q --debug prints a value", args))
	}
	cdigen(t, "devices", "--spec-dir", filepath.Join(dir, "cdi"), "--debug").
		expect(t, exitInvalid, "debug: read "+filepath.Join(dir, "cdi/bad.json"))
}
