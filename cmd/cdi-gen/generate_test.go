package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// codes are the exit codes of generate on the machines where it is not 0.
var codes = map[string]int{
	"none": exitNothing, "empty-classes": exitNothing, "misbehaving": exitPartial,
	"exclusive-netns": exitExclusive, "soft-pci": exitExclusive,
}

// TestGenerate: on every machine the spec is what its golden file says, twice in a
// row byte for byte, and a runtime of 2022 can read it.
func TestGenerate(t *testing.T) {
	for _, name := range fixture.Names() {
		t.Run(name, func(t *testing.T) {
			root := host(t, name)
			want := codes[name]
			if want == exitExclusive {
				r := cdigen(t, "generate", "--host-root", root, "--no-hook")
				r.expect(t, exitExclusive, "set \"options ib_core netns_mode=1\"")
				test.Eq(t, "", r.stdout, test.Sprint("printed"))
				want = exitOK
			}
			for _, format := range formats(name) {
				args := []string{"generate", "--host-root", root, "--no-hook", "--output", format, "--allow-exclusive-netns"}
				first, second := cdigen(t, args...), cdigen(t, args...)
				test.Eq(t, first, second, test.Cmp(cmp.AllowUnexported(result{})), test.Sprint("two runs differ"))
				if first.code != want || (first.stderr == "") != (want == exitOK) {
					t.Errorf("exit code %d, standard error %q; want %d", first.code, first.stderr, want)
				}
				if want == exitNothing {
					test.Eq(t, "", first.stdout, test.Sprint("an empty spec"))
					continue
				}
				checkGolden(t, filepath.Join("generate", name+"."+format), first.stdout)
				loads(t, first.stdout, format)
			}
		})
	}
}

// formats gives the machines whose YAML is kept besides their JSON.
func formats(machine string) []string {
	if slices.Contains([]string{"hgx-h100", "roce-lag", "soft", "none"}, machine) {
		return []string{"json", "yaml"}
	}
	return []string{"json"}
}

// loads checks that the CDI library takes a spec, as version 0.5.0 or lower.
func loads(t *testing.T, spec, format string) *cdiapi.Spec {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rdma.dev-hca."+format)
	put(t, file, spec, 0o644)
	got, err := cdiapi.ReadSpec(file, 0)
	must.NoError(t, err, must.Sprint("the CDI library refuses the spec"))
	test.True(t, slices.Contains([]string{"0.3.0", "0.4.0", "0.5.0"}, got.Version),
		test.Sprintf("CDI %s; podman 4.3 knows 0.5.0", got.Version))
	return got
}

// TestGoldenFilesAreUsed: a machine that was renamed leaves no file behind.
func TestGoldenFilesAreUsed(t *testing.T) {
	files, err := filepath.Glob("testdata/generate/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files %v, error %v", files, err)
	}
	for _, file := range files {
		name, format, _ := strings.Cut(filepath.Base(file), ".")
		if !slices.Contains(fixture.Names(), name) || codes[name] == exitNothing || !slices.Contains(formats(name), format) {
			t.Errorf("%s belongs to no machine", file)
		}
	}
}

// TestGenerateChoice: --device, --exclude, --names, --no-all and --nodes.
func TestGenerateChoice(t *testing.T) {
	for _, c := range []struct {
		machine string
		args    string
		want    string
	}{
		{"roce-lag", "", "all:uverbs0 mlx5_bond_0:uverbs0 pci-0000-3b-00-0:uverbs0 +rdma_cm"},
		{"roce-lag", "--no-all --names pci", "pci-0000-3b-00-0:uverbs0 +rdma_cm"},
		{"roce-lag", "--no-all --names ibdev --nodes verbs", "mlx5_bond_0:uverbs0"},
		{"roce-lag", "--no-all --names ibdev --nodes verbs,mad", "mlx5_bond_0:uverbs0 mlx5_bond_0-mad:umad0"},
		{"roce-lag", "--no-all --names ibdev --nodes cm", "mlx5_bond_0: +rdma_cm"},
		{"roce-sriov", "--no-all --names ibdev --device mlx5_3", "mlx5_3:uverbs3 +rdma_cm"},
		{"roce-sriov", "--no-all --names ibdev --device 0000:3b:00.0", "mlx5_0:uverbs0 +rdma_cm"},
		{"roce-sriov", "--no-all --names ibdev --device pci-0000-3b-01-1", "mlx5_9:uverbs9 +rdma_cm"},
		{"roce-sriov", "--names ibdev --device mlx5_[23],0000:3b:01.* --exclude mlx5_9",
			"all:uverbs2,uverbs3,uverbs8 mlx5_2:uverbs2 mlx5_3:uverbs3 mlx5_8:uverbs8 +rdma_cm"},
		{"roce-sriov", "--names ibdev --exclude 0000:3b:00.* --exclude mlx5_8", "all:uverbs9 mlx5_9:uverbs9 +rdma_cm"},
		{"mlx4-dual-port", "--no-all --names ibdev --nodes verbs,sm", "mlx4_0:uverbs0 mlx4_0-sm:issm0,issm1,umad0,umad1"},
	} {
		args := append([]string{"generate", "--output", "json", "--no-hook", "--host-root", host(t, c.machine)},
			strings.Fields(c.args)...)
		r := cdigen(t, args...)
		r.expect(t, exitOK, "")
		test.Eq(t, c.want, describe(loads(t, r.stdout, "json")), test.Sprintf("%s %s", c.machine, c.args))
	}
}

// TestGeneratePartial: the spec is there, and why it lacks devices is said. Of the
// devices that were not asked for nothing is said; of nodes that belong to nobody
// knows whom it is.
func TestGeneratePartial(t *testing.T) {
	root := host(t, "misbehaving")
	all := cdigen(t, "generate", "--host-root", root, "--no-hook", "--output", "json")
	one := cdigen(t, "generate", "--host-root", root, "--no-hook", "--output", "json", "--device", "mlx5_0")
	for _, c := range []struct {
		result
		devices int
		says    []string
		not     string
	}{
		{all, 13, []string{"HCA mlx5_3 has no uverbs node", "HCA mlx5_4: ", "HCA mlx5_7: ", "uverbs2/ibdev"}, "HCA mlx5_0"},
		{one, 3, []string{"uverbs2/ibdev"}, "HCA "},
	} {
		test.Eq(t, c.devices, len(loads(t, c.stdout, "json").Devices), test.Sprint("devices"))
		for _, says := range c.says {
			c.expect(t, exitPartial, says)
		}
		test.StrNotContains(t, c.stderr, c.not, test.Sprint("standard"))
	}
}

// describe writes a spec as "device:nodes device:nodes +nodes of the spec".
func describe(spec *cdiapi.Spec) string {
	var out []string
	for _, d := range spec.Devices {
		var names []string
		for _, n := range d.ContainerEdits.DeviceNodes {
			names = append(names, filepath.Base(n.Path))
		}
		out = append(out, d.Name+":"+strings.Join(names, ","))
	}
	for _, n := range spec.ContainerEdits.DeviceNodes {
		out = append(out, "+"+filepath.Base(n.Path))
	}
	return strings.Join(out, " ")
}

// TestGenerateHook: where the hook is looked for, and what of it goes into the spec.
// last is what each hook has besides.
const last = " --last-report /run/rdma.dev/last-container.json"

// own and use are what the hook checks of the machine roce-lag.
const (
	own = " --node mlx5_bond_0:uverbs0@0000:3b:00.0"
	use = own + " --hca mlx5_bond_0:uverbs0:mlx5_core"
)

func TestGenerateHook(t *testing.T) {
	root := t.TempDir()
	must.NoError(t, os.Symlink(filepath.Join(host(t, "roce-lag"), "sys"), filepath.Join(root, "sys")))
	generate := func(args ...string) result {
		return cdigen(t, append([]string{"generate", "--output", "json", "--host-root", root}, args...)...)
	}
	generate().expect(t, exitHook, "find the hook that raises the locked memory limit")
	put(t, filepath.Join(root, "usr/bin/rdma-hook"), "", 0o755)
	put(t, filepath.Join(root, "opt/hook"), "", 0o755)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "/usr/bin/rdma-hook rdma-hook --memlock unlimited" + last + use},
		{[]string{"--hook-path", "/opt/hook", "--memlock", "4Gi"}, "/opt/hook rdma-hook --memlock 4294967296" + last + use},
		{[]string{"--on-unusable", "fail"}, "/usr/bin/rdma-hook rdma-hook --memlock unlimited --on-unusable fail" + last + use},
		{[]string{"--on-unusable", "ignore"}, "/usr/bin/rdma-hook rdma-hook --memlock unlimited --on-unusable ignore" + last + own},
	} {
		r := generate(c.args...)
		r.expect(t, exitOK, "")
		spec := loads(t, r.stdout, "json")
		must.Eq(t, 1, len(spec.ContainerEdits.Hooks),
			must.Sprintf("hooks of the spec: %+v; want one", spec.ContainerEdits.Hooks))
		h := spec.ContainerEdits.Hooks[0]
		if got := h.Path + " " + strings.Join(h.Args, " "); got != c.want || h.HookName != "createRuntime" {
			t.Errorf("%s: %s hook %q; want %q", c.args, h.HookName, got, c.want)
		}
		for _, d := range spec.Devices {
			test.Eq(t, 0, len(d.ContainerEdits.Hooks), test.Sprintf("device %s has a hook of its own", d.Name))
		}
	}
}

// TestGenerateHookReplaceable: as root, a hook that a user could replace does not go into a
// spec, wherever the way to it is open: the runtime would run the user's program as root.
func TestGenerateHookReplaceable(t *testing.T) {
	needs.Root(t, "changing owners")
	for name, change := range map[string]func(root string) error{
		"file":                  func(root string) error { return os.Lchown(root+"/usr/bin/rdma-hook", 4711, 0) },
		"directory":             func(root string) error { return os.Chmod(root+"/usr/bin", 0o775) },
		"directory of a parent": func(root string) error { return os.Lchown(root+"/usr", 4711, 0) },
		"link": func(root string) error {
			home := root + "/home"
			return errors.Join(os.Mkdir(home, 0o777), os.Chmod(home, 0o777), os.Rename(root+"/usr/bin/rdma-hook", home+"/hook"),
				os.Symlink("/home/hook", root+"/usr/bin/rdma-hook"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := site(t, "roce-lag")
			put(t, filepath.Join(root, "usr/bin/rdma-hook"), "", 0o755)
			args := []string{"generate", "--output", "json", "--host-root", root}
			cdigen(t, args...).expect(t, exitOK, "")
			must.NoError(t, change(root))
			for _, further := range [][]string{nil, {"--hook-path", "/usr/bin/rdma-hook"}} {
				r := cdigen(t, append(args, further...)...)
				r.expect(t, exitHook, `"/usr/bin/rdma-hook": others than root can replace it, and it would run as root: `)
				if r.stdout != "" || !strings.Contains(r.stderr, "chown") && !strings.Contains(r.stderr, "chmod") {
					t.Errorf("standard output %q, standard error %q; want no spec, and the remedy", r.stdout, r.stderr)
				}
			}
		})
	}
}

// TestHostRootLinks: an absolute link below --host-root leads to a file there, which the runtime
// of that host sees, and not to one of the system on which cdi-gen runs.
func TestHostRootLinks(t *testing.T) {
	root, outside := site(t, "roce-lag"), t.TempDir()
	put(t, filepath.Join(outside, "hook"), "", 0o755) // of this system alone
	put(t, filepath.Join(root, "opt/rdma/rdma-hook"), "", 0o755)
	for link, target := range map[string]string{
		"usr/bin/rdma-hook": "/opt/rdma/rdma-hook", "usr/bin/outside": filepath.Join(outside, "hook"),
		"etc/topo.xml":   "/opt/topo.xml",
		"etc/passwd.xml": "/etc/passwd", "opt/up": "../../../../../../../../../etc/site.conf",
	} {
		at := filepath.Join(root, link)
		must.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at)))
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitOK, ""},
		{[]string{"--mount", "/etc/topo.xml", "--nccl-topology", "/etc/topo.xml", "--mount", "/opt/up"}, exitOK, ""},
		{[]string{"--hook-path", "/usr/bin/outside"}, exitHook, "/usr/bin/outside: no such file or directory"},
		{[]string{"--mount", "/etc/passwd.xml"}, exitUsage, "/etc/passwd.xml: no such file or directory; every container " +
			"start would fail"},
	} {
		args := append([]string{"generate", "--output", "json", "--host-root", root}, c.args...)
		cdigen(t, args...).expect(t, c.code, c.says)
	}
}

// TestGenerateLimits: limits come from a flag or else from the file, and with a hook.
func TestGenerateLimits(t *testing.T) {
	root := site(t, "roce-lag")
	put(t, filepath.Join(root, "usr/bin/rdma-hook"), "", 0o755)
	config := filepath.Join(root, "cdi-gen.yaml")
	put(t, config, "apiVersion: rdma.dev/v1alpha1\nkind: HostConfig\nlimits: {handles: 8}\n", 0o644)
	generate := func(args ...string) result {
		return cdigen(t, append([]string{"generate", "--output", "json", "--host-root", root, "--names", "ibdev", "--no-all"},
			args...)...)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", config}, "rdma-hook --memlock unlimited" + last + " --limit mlx5_bond_0:handles=8" + use},
		{[]string{"--config", config, "--limit", "objects=100,handles=4"},
			"rdma-hook --memlock unlimited" + last + " --limit mlx5_bond_0:handles=4,objects=100" + use},
	} {
		r := generate(c.args...)
		r.expect(t, exitOK, "")
		spec := loads(t, r.stdout, "json")
		hooks := spec.Devices[0].ContainerEdits.Hooks
		if len(hooks) != 1 || strings.Join(hooks[0].Args, " ") != c.want || len(spec.ContainerEdits.Hooks) > 0 {
			t.Errorf("%s: hooks %+v; want one of the device, %q", c.args, hooks, c.want)
		}
	}
	generate("--limit", "handles=0").expect(t, exitUsage, `--limit: parse limit "handles=0"`)
	generate("--limit", "").expect(t, exitUsage, "an empty value")
	generate("--no-hook", "--limit", "handles=1").
		expect(t, exitUsage, "--no-hook leaves out the hook that sets the limits")
	generate("--no-hook", "--config", config).expect(t, exitUsage, "--no-hook leaves out the hook that sets the limits")
}
