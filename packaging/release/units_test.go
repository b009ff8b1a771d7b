package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

// unitTree is a root directory with the programs and units of a package, and what
// systemd-analyze wants to find there besides.
func unitTree(t *testing.T) string {
	t.Helper()
	dir, _ := packages(t)
	root := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(root, "usr"), 0o755))
	tool(t, "tar", "-C", filepath.Join(root, "usr"), "--strip-components=1", "-xzf", filepath.Join(dir, "cdi-gen_1.2.3_linux_"+runtime.GOARCH+".tar.gz"))
	for _, unit := range []string{"sysinit.target", "basic.target", "shutdown.target", "multi-user.target"} {
		must.NoError(t, os.WriteFile(filepath.Join(root, "usr/lib/systemd/system", unit), []byte("[Unit]\nDescription=-\n"), 0o644))
	}
	return root
}

// TestUnitsVerify: systemd finds nothing wrong with the units.
func TestUnitsVerify(t *testing.T) {
	need(t, "systemd-analyze", "systemd")
	root := unitTree(t)
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", "--root="+root, "cdi-gen.service", "cdi-gen-watch.service").CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestUnitsRun: the commands of the units are ones that cdi-gen knows: they get as far
// as looking for devices, where there are none.
func TestUnitsRun(t *testing.T) {
	root := unitTree(t)
	for _, unit := range []string{"cdi-gen.service", "cdi-gen-watch.service"} {
		data, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system", unit))
		must.NoError(t, err)
		// Others wait for the unit, and a oneshot has no limit of its own.
		test.StrContains(t, string(data), "\nTimeoutStartSec=", test.Sprintf("%s has no limit of time", unit))
		_, line, _ := strings.Cut(string(data), "\nExecStart=cdi-gen ")
		line, _, _ = strings.Cut(line, "\n")
		args := strings.Fields(strings.Replace(line, "$CDI_GEN_OPTIONS", "--host-root "+root+" --no-hook --memlock 1", 1))
		out, _ := exec.Command(filepath.Join(root, "usr/bin/cdi-gen"), args...).CombinedOutput()
		// Two flags that exclude each other end the program after it has read all of them.
		test.StrHasPrefix(t, "cdi-gen: --no-hook leaves out the hook", string(out),
			test.Sprintf("%s: cdi-gen %s says %q", unit, args, out))
	}
}

// TestRules: each udev rule starts a unit that is packaged, without waiting for it, and
// again where it runs.
func TestRules(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(checkout, "packaging/udev/90-cdi-gen.rules"))
	must.NoError(t, err)
	rules := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rules++
		if !strings.HasSuffix(line, `RUN+="/usr/bin/systemctl restart --no-block cdi-gen.service"`+"\n") || !strings.Contains(line, "ACTION==") {
			t.Errorf("rule %s", line)
		}
	}
	for _, subsystem := range []string{"infiniband", "infiniband_verbs", "infiniband_mad", "misc"} {
		test.StrContains(t, string(data), subsystem, test.Sprint("no rule for the subsystem"))
	}
	test.NotEq(t, 0, rules, test.Sprint("no rule"))
}
