package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/exitcode"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// invoke runs the program in the test's process.
func invoke(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(drivertest.Context(t), args, func(name string) string { return env[name] }, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag": {[]string{"--nope"}, "unknown flag: --nope; see dra-driver --help"},
		"command":      {[]string{"serve"}, `unknown command "serve"; see dra-driver --help`},
		"typo":         {[]string{"expln"}, `unknown command "expln", did you mean explain?; see dra-driver --help`},
		"no node name": {nil, "set --node-name or NODE_NAME"},
		"relative path": {[]string{"--node-name", "n", "--cdi-dir", "cdi"},
			"CDI directory is not an absolute path: \"cdi\""},
		"bad memlock": {[]string{"--node-name", "n", "--memlock", "lots"},
			"--memlock: want unlimited, inherit or a positive whole number of bytes such as 4Gi"},
		"bad policy": {[]string{"--node-name", "n", "--on-denied", "explode"},
			`--on-denied: want clamp, fail or ignore, not "explode"`},
		"explain, bad format": {[]string{"explain", "-o", "xml"}, `--output "xml": want one of [table json yaml]`},
		"explain, bad file": {[]string{"explain", "--config", "testdata/bad.yaml"},
			`read policy "testdata/bad.yaml": `},
		"explain, argument":     {[]string{"explain", "mlx5_0"}, `unknown argument "mlx5_0"`},
		"probe, unknown flag":   {[]string{"probe", "--nope"}, "see dra-driver probe --help"},
		"probe, argument":       {[]string{"probe", "now"}, `unknown argument "now"`},
		"version with argument": {[]string{"version", "now"}, `unknown argument "now"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := invoke(t, nil, tc.args...)
			if code != exitcode.Usage || stdout != "" || !strings.Contains(stderr, tc.want) ||
				!strings.HasPrefix(stderr, "dra-driver: ") || !strings.Contains(stderr, "see dra-driver") {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, exitcode.Usage, tc.want)
			}
		})
	}
}

func TestVersionAndHelp(t *testing.T) {
	for _, ask := range []string{"version", "--version"} {
		if code, stdout, _ := invoke(t, nil, ask); code != exitcode.OK || !strings.HasPrefix(stdout, "dra-driver ") {
			t.Errorf("%s: exit code %d, %q", ask, code, stdout)
		}
	}
	if code, stdout, _ := invoke(t, nil, "--help"); code != exitcode.OK || !strings.Contains(stdout, "Exit codes") {
		t.Errorf("--help: exit code %d, %q", code, stdout)
	}
}

// TestHelpFits: the help of each command fits on a terminal.
func TestHelpFits(t *testing.T) {
	names := []string{""}
	for _, cmd := range newRoot(func(string) string { return "" }).Commands() {
		names = append(names, cmd.Name())
	}
	must.GreaterEq(t, 7, len(names), must.Sprintf("commands %q", names))
	for _, name := range names {
		code, stdout, stderr := invoke(t, nil, append(strings.Fields(name), "--help")...)
		if code != exitcode.OK || stderr != "" || !strings.Contains(stdout, "Usage:") {
			t.Errorf("%q: exit code %d, %q, %s", name, code, stderr, stdout)
		}
		for line := range strings.Lines(stdout) {
			if len(line) > 81 && strings.Contains(strings.TrimSpace(line), " ") && !strings.HasPrefix(line, "  dra-driver ") &&
				!strings.HasPrefix(line, "  kubectl ") {
				t.Errorf("the help of %q has a line of %d columns: %s", name, len(line)-1, line)
			}
		}
	}
}

// TestExplain: explain needs no node and no cluster, and says so once when limits are
// not enforced.
func TestExplain(t *testing.T) {
	host := drivertest.NewHost(t, "roce-sriov")
	code, stdout, stderr := invoke(t, nil, "explain", "--host-root", host.Root, "--config", "testdata/shared.yaml")
	if code != exitcode.OK || stderr != "" || !strings.Contains(stdout, "shared-pci-0000-3b-00-0") ||
		strings.Count(stdout, "no rdma cgroup controller") != 1 ||
		!strings.Contains(stdout, "the driver has no --nri-socket, so") ||
		!strings.Contains(stdout, "not seen whether the API server has feature gate DRAConsumableCapacity") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	socket := filepath.Join(host.Root, "nri.sock")
	code, stdout, _ = invoke(t, nil, "explain", "--host-root", host.Root, "--nri-socket", socket)
	if code != exitcode.OK || !strings.Contains(stdout, "has no NRI at --nri-socket") ||
		!strings.Contains(stdout, "RDMA_GID_INDEX_<HCA>") {
		t.Errorf("without NRI: exit code %d, stdout:\n%s", code, stdout)
	}
	must.NoError(t, os.WriteFile(socket, nil, 0o600))
	code, stdout, _ = invoke(t, nil, "explain", "--host-root", host.Root, "-o", "json", "--nri-socket", socket)
	if code != exitcode.OK || !strings.Contains(stdout, `"published": "exclusive"`) ||
		strings.Contains(stdout, "RDMA_GID_INDEX") {
		t.Errorf("without a file: exit code %d, stdout:\n%s", code, stdout)
	}
	code, _, stderr = invoke(t, nil, "explain", "--host-root", drivertest.TempDir(t))
	if code != exitcode.Failed || !strings.Contains(stderr, "discover the RDMA devices below") {
		t.Errorf("without sysfs: exit code %d, stderr %q", code, stderr)
	}
	needs.Root(t, "entering a network namespace")
	code, stdout, stderr = invoke(t, nil, "explain", "--host-root", host.Root, "--attach-interfaces", "--node-ips",
		"192.0.2.1")
	if code != exitcode.OK || !strings.Contains(stdout, "MACVLAN   IPVLAN   MOVE") ||
		!strings.Contains(stdout, `: network interface "ens1f0np0": the host has none of that name now`) {
		t.Errorf("of interfaces: exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
}

// What cannot work is told with what was tried, and exit code 1.
func TestStartErrors(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no kubeconfig":    {[]string{"--kubeconfig", "/nonexistent"}, "configure the Kubernetes client"},
		"not in a cluster": {[]string{"--kubeconfig", ""}, "outside of a pod, name a --kubeconfig"},
		"no hook to install": {[]string{"--hook-dir", drivertest.TempDir(t), "--hook-source", "/nonexistent"},
			"/nonexistent"},
		"no sysfs": {[]string{"--host-root", drivertest.TempDir(t)}, "sys"},
		"no kubelet": {[]string{"--kubelet-dir", filepath.Join(drivertest.TempDir(t), "none")},
			"register with the kubelet below"},
	} {
		t.Run(name, func(t *testing.T) {
			p := drivertest.StartProcess(t, append(n.Args(t, ""), tc.args...)...)
			if code := p.Wait(); code != exitcode.Failed || !strings.Contains(p.Output(), tc.want) {
				t.Errorf("exit code %d, output %q; want %d and %q", code, p.Output(), exitcode.Failed, tc.want)
			}
		})
	}
}

// TestClientHasNoThrottle: client-go's default lets five claims a second through.
func TestClientHasNoThrottle(t *testing.T) {
	client, _, err := newClient(drivertest.NewAPI(t).Kubeconfig(t))
	must.NoError(t, err)
	set := client.(*kubernetes.Clientset)
	for name, limiter := range map[string]any{
		"resource.k8s.io": set.ResourceV1().RESTClient().GetRateLimiter(),
		"core":            set.CoreV1().RESTClient().GetRateLimiter(),
	} {
		if limiter != nil {
			t.Errorf("client of %s has rate limiter %v", name, limiter)
		}
	}
}

// TestHookInstall: the hook goes to the host under a name with its version; older
// ones stay while a claim's spec names them.
func TestHookInstall(t *testing.T) {
	dir, cdiDir, source := drivertest.TempDir(t), drivertest.TempDir(t), filepath.Join(drivertest.TempDir(t), "hook")
	write := func(path, content string) {
		t.Helper()
		must.NoError(t, os.WriteFile(path, []byte(content), 0o755))
	}
	write(source, "#!/bin/sh\n")
	flags := hookFlags{source: source, dir: dir, onDenied: "fail"}
	options, err := flags.install(context.Background())
	must.NoError(t, err)
	base := filepath.Base(options.Path)
	if filepath.Dir(options.Path) != dir || options.OnDenied != "fail" || base == "rdma-hook" {
		t.Errorf("options are %+v, want a name with a version in %s", options, dir)
	}
	info, err := os.Stat(options.Path)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("hook is %v, %v", info, err)
	}
	used, unused := filepath.Join(dir, "rdma-hook-v0.1.0"), filepath.Join(dir, "rdma-hook-v0.2.0")
	write(used, "old")
	write(unused, "old")
	write(filepath.Join(dir, "not-ours"), "")
	write(filepath.Join(cdiDir, "rdma.dev-claim_1.json"), `{"containerEdits": {"hooks": [{"path": "`+used+`"}]}}`)
	if _, err := prune(dir, options.Path, cdiDir); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values([]string{"not-ours", base, filepath.Base(used)}))
	test.SliceEqOp(t, want, drivertest.Files(t, dir), test.Sprint("hook directory"))
}

func TestHookInstallErrors(t *testing.T) {
	ctx := context.Background()
	options, err := (&hookFlags{}).install(ctx)
	if err != nil || options != (plan.HookOptions{}) {
		t.Errorf("without a directory: %+v, %v, want no hook", options, err)
	}
	missing := &hookFlags{source: "/nonexistent/rdma-hook", dir: drivertest.TempDir(t)}
	if _, err := missing.install(ctx); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "/nonexistent/rdma-hook") {
		t.Errorf("without a source: %v", err)
	}
}

// TestExplainPlanted: in the copy of a host, explain follows no link to a file of this system.
func TestExplainPlanted(t *testing.T) {
	root := rdmatest.Root(t, "roce-lag")
	guid, err := filepath.EvalSymlinks(filepath.Join(root, "sys/class/infiniband/mlx5_bond_0/node_guid"))
	must.NoError(t, err)
	must.NoError(t, errors.Join(os.Remove(guid), os.Symlink(t.TempDir(), guid)))
	_, stdout, _ := invoke(t, nil, "explain", "--host-root", root, "-o", "json")
	test.StrContains(t, stdout, "path escapes from parent")
}

// TestExplainBlocks: explain shows the entries of ipam with the HCAs of their rails, and the node's blocks if it can
// read the node, or else why not.
func TestExplainBlocks(t *testing.T) {
	host, api := drivertest.NewHost(t, "roce-sriov"), drivertest.NewAPI(t)
	args := []string{"explain", "--host-root", host.Root, "--config", "testdata/blocks.yaml"}
	of := func(wantCode int, want ...string) {
		t.Helper()
		code, stdout, stderr := invoke(t, nil, args...)
		for _, part := range want {
			if code != wantCode || (stderr == "") != (code == exitcode.OK) || !strings.Contains(stdout, part) {
				t.Errorf("exit code %d, stderr %q, want %d and %q in stdout:\n%s", code, stderr, wantCode, part, stdout)
			}
		}
	}
	of(exitcode.OK, "plugin   -              -       -        -",
		"rail0    10.80.0.0/16   -       -        mlx5_0,mlx5_2,",
		"rail1    10.81.0.0/16   -       -        mlx5_1",
		"name the node (--node-name)")
	args = append(args, "--node-name", drivertest.NodeName, "--kubeconfig", api.Kubeconfig(t))
	of(exitUnapplied, "node node1 has no pod CIDR (spec.podCIDRs)",
		"node node1 has no label node-restriction.kubernetes.io/block")
	api.ChangeNode(func(n *corev1.Node) {
		n.Spec.PodCIDRs = []string{"10.244.7.0/24"}
		n.Labels = map[string]string{"node-restriction.kubernetes.io/block": "9"}
	})
	of(exitcode.OK, "10.80.7.0/24", "10.81.9.0/24")
	args = append(args, "--kubeconfig", "/nonexistent")
	of(exitUnapplied, "get node node1 for its block of addresses: configure the Kubernetes client")
}
