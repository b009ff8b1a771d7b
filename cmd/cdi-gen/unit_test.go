package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// TestUnitDoesNotRestart: watch ends with a code after which the unit does not restart it, for each fault that only a
// person can mend.
func TestUnitDoesNotRestart(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/systemd/cdi-gen-watch.service")
	must.NoError(t, err)
	codes := strings.Trim(fmt.Sprint(needPerson), "[]")
	test.StrContains(t, string(unit), "\nRestartPreventExitStatus="+codes+"\n",
		test.Sprintf("the unit restarts watch after one of the exit codes %s", codes))
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	put(t, config, "apiVersion: rdma.dev/v1alpha1\nkind: HostConfig\nmemlokc: 4Gi\n", 0o644)
	put(t, filepath.Join(dir, "foreign.yaml"), "a: b\n", 0o644)
	for _, options := range []string{
		"--memlokc 4Gi", "4Gi", "--memlock 4Gx", "--memlock=", "--limit handles", "--nodes verb", "--names guit",
		"--kind x", "--device [", "--env =x", "--mount relative", "--mount /absent", "--userspace none",
		"--target podman-0.1",
		"--on-denied stop", "--no-hook --memlock 4Gi", "--hook-path /absent", "--hook-path relative", "--output toml",
		"--config /absent", "--config " + config, "--to " + dir + "/x.yml", "--to " + dir + "/foreign.yaml",
	} {
		// As in the unit: the last --to wins.
		args := []string{"watch", "--to", dir, "--host-root", host(t, "roce-lag")}
		if !strings.Contains(options, "hook") && !strings.Contains(options, "memlock") {
			args = append(args, "--no-hook") // which excludes the flags about the hook
		}
		if r := cdigen(t, append(args, strings.Fields(options)...)...); !slices.Contains(needPerson, r.code) {
			t.Errorf("watch %s: exit code %d, after which the unit restarts it: %s", options, r.code, r.stderr)
		}
	}
}
