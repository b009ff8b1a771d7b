package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
)

// TestRefusedBesideAnother: a driver that starts with a bad file leaves the node to the driver that works there. Alone it
// goes on: here to the next error, as there is no API server.
func TestRefusedBesideAnother(t *testing.T) {
	state := drivertest.TempDir(t)
	args := []string{"--node-name", "n", "--state-dir", state, "--config", "testdata/bad.yaml"}
	if code, _, stderr := invoke(t, nil, args...); code != exitcode.Failed ||
		!strings.Contains(stderr, "configure the Kubernetes client") {
		t.Errorf("alone: exit code %d, stderr %q", code, stderr)
	}
	other, err := claimstore.Enter(state, drivertest.TempDir(t), claimstore.Boot{ID: "b"})
	must.NoError(t, err)
	code, _, stderr := invoke(t, nil, args...)
	if code != exitcode.Usage || !strings.Contains(stderr, `read policy "testdata/bad.yaml": `) ||
		!strings.Contains(stderr, "another driver works on the node") {
		t.Errorf("beside another driver: exit code %d, stderr %q", code, stderr)
	}
	runtime.KeepAlive(other) // with its lock
}

// TestExplainStdin: kubectl exec -i passes the file that a user wants to try as standard input. Runtimes pass a pipe,
// and other programs a socket, which no path opens.
func TestExplainStdin(t *testing.T) {
	host := drivertest.NewHost(t, "roce-sriov")
	explain := func(rules string) (out string, code int) {
		cmd := exec.CommandContext(t.Context(), drivertest.Binary(t), "explain", "--config", "-", "--host-root", host.Root)
		cmd.Env = []string{}
		cmd.Stdin = socketWith(t, "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\nrules: ["+rules+"]\n")
		text, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(text), cmd.ProcessState.ExitCode()
	}
	if out, code := explain("{name: a, publish: everyone}"); code != exitcode.Usage ||
		!strings.Contains(out, `read policy "-": line 3: rules[0].publish: want none, exclusive`) {
		t.Errorf("a bad file: exit code %d: %s", code, out)
	}
	if out, code := explain("{name: lent, publish: shared}"); code != exitcode.OK || !strings.Contains(out, "lent") {
		t.Errorf("a good file: exit code %d: %s", code, out)
	}
}

// socketWith returns the end of a socket that reads text.
func socketWith(t *testing.T, text string) *os.File {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.NoError(t, err)
	in, out := os.NewFile(uintptr(ends[0]), "in"), os.NewFile(uintptr(ends[1]), "out")
	t.Cleanup(func() { in.Close() })
	if _, err := out.WriteString(text); err != nil {
		t.Fatal(err)
	}
	must.NoError(t, out.Close())
	return in
}

// TestProbeRefused: a driver that started with a bad file is alive and not ready, which stops a rollout and restarts
// nothing. It is ready once the file is correct.
func TestProbeRefused(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	file := filepath.Join(t.TempDir(), "config.yaml")
	write := func(publish string) {
		t.Helper()
		text := "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\nrules: [{name: a, publish: " + publish + "}]\n"
		must.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write("everyone")
	n.Start(t, podUID, "--config", file)
	if code, stderr := probeNode(t, n, podUID); code != exitcode.OK {
		t.Errorf("it is not alive: exit code %d, %q", code, stderr)
	}
	if code, stderr := probeNode(t, n, podUID, "--ready"); code != exitcode.Failed ||
		!strings.Contains(stderr, "offers nothing to new claims") || !strings.Contains(stderr, "rules[0].publish") {
		t.Errorf("with a bad file: exit code %d, %q", code, stderr)
	}
	write("exclusive")
	drivertest.Eventually(t, func() error {
		if code, stderr := probeNode(t, n, podUID, "--ready"); code != exitcode.OK {
			return fmt.Errorf("with a good file: exit code %d, %q", code, stderr)
		}
		return nil
	})
}

// TestExplainUnapplied: a file that is valid, but gives this host no rails or no ipam, must fail where a user tries it.
// Rules for nodes of other kinds are no mistake.
func TestExplainUnapplied(t *testing.T) {
	host := drivertest.NewHost(t, "roce-sriov")
	const (
		nothing = `selectors: [{cel: {expression: 'device.attributes["rdma.dev"].protocol == "ib"'}}]`
		ipam    = "ipam: {a: {type: host-local}}\n"
	)
	for name, tc := range map[string]struct{ file, want string }{
		"rails":           {"rules: [{name: all, rails: 2}]", ""},
		"of another kind": {"rules: [{name: ib, rails: 8, " + nothing + "}, {name: all, rails: 2}]", ""},
		"miscounted":      {"rules: [{name: all, rails: 3}]", "rule all numbers 3 cards, and it matches 2"},
		"miscounted, ipam": {ipam + "rules: [{name: all, rails: 3, ipam: a}]",
			"this host: rule all numbers 3 cards, and it matches 2\n"},
		"no rails": {"rules: [{name: ib, rails: 8, " + nothing + "}]", "no rule with rail or rails matches an HCA"},
		"no rail":  {"rules: [{name: ib, rail: 0, " + nothing + "}]", "no rule with rail or rails matches an HCA"},
		"no ipam":  {ipam + "rules: [{name: ib, ipam: a, " + nothing + "}]", "no rule with ipam or railIPAM matches an HCA"},
		"ipam":     {ipam + "rules: [{name: all, ipam: a}]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "new.yaml")
			text := "apiVersion: rdma.dev/v1alpha1\nkind: DriverConfig\n" + tc.file + "\n"
			must.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			code, stdout, stderr := invoke(t, nil, "explain", "--host-root", host.Root, "--config", file)
			want := exitcode.OK
			if tc.want != "" {
				want = exitUnapplied
			}
			if code != want || (stderr == "") != (tc.want == "") || !strings.Contains(stderr, tc.want) ||
				!strings.Contains(stdout, "mlx5_0") {
				t.Errorf("exit code %d, stderr %q, want %d and %q; stdout:\n%s", code, stderr, want, tc.want, stdout)
			}
		})
	}
}
