package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/elftest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
)

// These tests start containers with runc and crun whose images have rdma-core in many forms. What the hook finds must
// be exactly the one fault that a case has, and nothing in a healthy one.

// use is one container.
type use struct {
	image  *rdmaimage.Image
	driver string                         // of the HCA, mlx5_core by default
	args   []string                       // more of the hook
	mode   uint32                         // of the node, 0666 by default
	change func(spec map[string]any)      // of config.json
	mounts func(t *testing.T) []any       // more than the usual
	userns bool                           // the container has a user namespace
	raw    func(t *testing.T, dir string) // changes the root file system
	shell  string                         // what the container runs, "true" by default
}

var all = []string{"mlx5", "mlx4", "efa", "irdma", "rxe"}

func env(values ...string) func(map[string]any) {
	return func(spec map[string]any) { process(spec)["env"] = values }
}

func process(spec map[string]any) map[string]any { return spec["process"].(map[string]any) }

func user(values map[string]any) func(map[string]any) {
	return func(spec map[string]any) { process(spec)["user"] = values }
}

func rlimit(soft uint64) func(map[string]any) {
	return func(spec map[string]any) {
		process(spec)["rlimits"] = []any{map[string]any{"type": "RLIMIT_MEMLOCK", "soft": soft, "hard": soft}}
	}
}

func capable(spec map[string]any) {
	process(spec)["user"] = map[string]any{"uid": 0, "gid": 0}
	process(spec)["capabilities"] = map[string]any{"bounding": []string{"CAP_DAC_OVERRIDE"},
		"effective": []string{"CAP_DAC_OVERRIDE"}, "permitted": []string{"CAP_DAC_OVERRIDE"}}
}

// over mounts a directory with an image over a path.
func over(at string, i *rdmaimage.Image) func(*testing.T) []any {
	return func(t *testing.T) []any {
		dir := t.TempDir()
		i.Make(t, dir)
		return []any{bind(dir, at)}
	}
}

func bind(from, to string) any {
	return map[string]any{"destination": to, "type": "bind", "source": from, "options": []string{"bind"}}
}

// hostLibraries mounts the libraries of a host, as userspace: host does.
func hostLibraries(t *testing.T) (mounts []any) {
	host := rdmaimage.Debian(all...)
	host.ABI = "57"
	host.Lib("libibverbs.so.1", host.Verbs())
	for _, name := range all {
		host.Remove(strings.Replace(host.ProviderPath(name), "57", "34", 1))
		host.Provider(name, "57")
	}
	dir := t.TempDir()
	host.Make(t, dir)
	mounts = append(mounts, bind(filepath.Join(dir, "etc/libibverbs.d"), "/etc/libibverbs.d"))
	for _, lib := range []string{"libibverbs.so.1", "libnl-3.so.200", "libnl-route-3.so.200"} {
		at, err := filepath.EvalSymlinks(filepath.Join(dir, host.LibDir, lib))
		if err != nil {
			t.Fatal(err)
		}
		mounts = append(mounts, bind(at, "/"+host.LibDir+"/"+lib), bind(at, "/usr/lib64/"+lib))
	}
	for _, name := range all {
		mounts = append(mounts, bind(filepath.Join(dir, host.ProviderPath(name)), "/"+host.ProviderPath(name)))
	}
	return mounts
}

func cached(i *rdmaimage.Image, soname, at string) *rdmaimage.Image {
	i.Files["etc/ld.so.cache"] = string(elftest.LDConfig([][2]string{{soname, at}}))
	return i
}

// silent are the healthy containers.
func silent() map[string]use {
	debian := func() *rdmaimage.Image { return rdmaimage.Debian(all...) }
	opt := cached(rdmaimage.Debian().Move("usr/lib/"+rdmaimage.Triplet, "opt/ofed/lib"), "libibverbs.so.1",
		"/opt/ofed/lib/libibverbs.so.1")
	opt.Lib("libc.so.6", elftest.Lib{})
	doca := cached(debian(), "libdoca_common.so.2", "/opt/mellanox/doca/lib/"+rdmaimage.Triplet+"/libdoca_common.so.2")
	doca.Files["opt/mellanox/doca/lib/"+rdmaimage.Triplet+"/libdoca_common.so.2"] = ""
	doca.Files["etc/libibverbs.d/vmw_pvrdma.driver"] = "driver vmw_pvrdma\n"
	conda := rdmaimage.Debian()
	conda.Files["opt/conda/lib/libibverbs.so.1"] = "x"
	other := debian()
	other.Files["etc/libibverbs.d/00-site.conf"] = "# comment\ndriver mlx5\n"
	named := debian().Remove("etc/libibverbs.d/mlx5.driver")
	return map[string]use{
		"Debian":                           {image: debian()},
		"RHEL":                             {image: rdmaimage.RHEL(all...)},
		"Alpine":                           {image: rdmaimage.Alpine(all...)},
		"DOCA":                             {image: doca},
		"no libibverbs":                    {image: rdmaimage.Empty()},
		"libibverbs of /opt by the cache":  {image: opt},
		"conda":                            {image: conda, change: env("LD_LIBRARY_PATH=/opt/conda/lib:/x")},
		"an LD_LIBRARY_PATH without verbs": {image: debian(), change: env("LD_LIBRARY_PATH=/usr/local/nvidia/lib::")},
		"the only provider it needs":       {image: rdmaimage.Debian("mlx5")},
		"a subfunction":                    {image: rdmaimage.Debian("mlx5"), driver: "mlx5_core.sf"},
		"software":                         {image: rdmaimage.Debian("rxe"), driver: "rxe"},
		"the host's libraries":             {image: rdmaimage.Debian(), mounts: hostLibraries},
		"the host's over the image's":      {image: debian(), mounts: hostLibraries},
		"a volume elsewhere":               {image: debian(), mounts: over("/data", rdmaimage.Empty())},
		"named in another file":            {image: other.Remove("etc/libibverbs.d/mlx5.driver")},
		"named by a variable":              {image: named, change: env("IBV_DRIVERS=mlx5")},
		"a driver that nobody knows":       {image: rdmaimage.Debian(), driver: "vendor_new"},
		"a preloaded libibverbs":           {image: rdmaimage.Debian(), change: env("LD_PRELOAD=/x/libibverbs.so")},
		"the node's group":                 {image: debian(), mode: 0o660, change: user(map[string]any{"uid": 7, "gid": 7, "additionalGids": []int{0}})},
		"the node's owner":                 {image: debian(), mode: 0o600, change: user(map[string]any{"uid": 0, "gid": 0})},
		"CAP_DAC_OVERRIDE":                 {image: debian(), mode: 0, change: capable},
		"a user namespace":                 {image: debian(), userns: true},
		"NCCL's prefix":                    {image: debian(), change: env("NCCL_IB_HCA=mlx5")},
		"NCCL's exact name":                {image: debian(), change: env("NCCL_IB_HCA==mlx5_0:1")},
		"NCCL's exception":                 {image: debian(), change: env("NCCL_IB_HCA=^mlx5_9")},
		"UCX's list":                       {image: debian(), change: env("UCX_NET_DEVICES=mlx5_0:1,eth0,mlx5_*:1,all")},
		"NVSHMEM's list":                   {image: debian(), change: env("NVSHMEM_HCA_LIST=mlx5_0:1")},
		"a limit that is enough":           {image: debian(), change: rlimit(1 << 20), args: []string{"--memlock", "64Ki"}},
		"a container without the HCA":      {image: rdmaimage.Debian(), change: func(s map[string]any) { s["linux"].(map[string]any)["devices"] = nil }},
		"checks are off":                   {image: rdmaimage.Debian(), args: []string{"--on-unusable", "ignore"}},
	}
}

// unknown are the healthy containers of whose providers nothing is known.
var unknown = []string{
	"no libibverbs", "libibverbs of /opt by the cache", "conda", "a driver that nobody knows", "a preloaded libibverbs",
	"a container without the HCA", "checks are off",
}

// faults are containers with one fault each; the value is its kind and words of it.
func faults() map[string]struct {
	use
	kind string
	text string
} {
	type fault = struct {
		use
		kind string
		text string
	}
	debian := func() *rdmaimage.Image { return rdmaimage.Debian(all...) }
	abi := debian()
	abi.Files[strings.Replace(abi.ProviderPath("mlx5"), "34", "25", 1)] = abi.Files[abi.ProviderPath("mlx5")]
	version := debian()
	version.Provider("mlx5", "57")
	needed := debian()
	needed.Write(needed.ProviderPath("mlx5"), elftest.Lib{Needed: []string{"libvendor.so.1"},
		Needs: map[string][]string{"libibverbs.so.1": {"IBVERBS_PRIVATE_34"}}})
	nl := debian().Remove("usr/lib/"+rdmaimage.Triplet+"/libnl-3.so.200", "usr/lib/"+rdmaimage.Triplet+"/libnl-3.so.200.0")
	providers := "/usr/lib/" + rdmaimage.Triplet + "/libibverbs"
	return map[string]fault{
		"no providers":       {use{image: rdmaimage.Debian()}, record.Provider.ID, "no provider mlx5"},
		"another provider":   {use{image: rdmaimage.RHEL("rxe", "efa")}, record.Provider.ID, "no provider mlx5"},
		"no provider of rxe": {use{image: rdmaimage.Debian("mlx5"), driver: "rxe"}, record.Provider.ID, "no provider rxe"},
		"Alpine without":     {use{image: rdmaimage.Alpine()}, record.Provider.ID, "no provider mlx5"},
		"a name without a file": {use{image: debian().Remove("usr/lib/" + rdmaimage.Triplet + "/libibverbs")},
			record.Provider.ID, "does not exist"},
		"a file without a name": {use{image: debian().Remove("etc/libibverbs.d/mlx5.driver")}, record.Provider.ID,
			"no file in"},
		"another private ABI": {use{image: abi.Remove(abi.ProviderPath("mlx5"))}, record.Provider.ID, "another private ABI"},
		"another version":     {use{image: version}, record.Provider.ID, `private ABI "57"`},
		"a needed library":    {use{image: needed}, record.Provider.ID, "libvendor.so.1"},
		"libnl":               {use{image: nl}, record.Provider.ID, "libnl-3.so.200"},
		"a volume over it": {use{image: debian(), mounts: over(providers, rdmaimage.Empty())}, record.Provider.ID,
			"does not exist"},
		"LD_LIBRARY_PATH": {use{image: rdmaimage.Debian(), change: env("LD_LIBRARY_PATH=/usr/local/nvidia/lib64")},
			record.Provider.ID, "no provider"},
		"mode 0600":     {use{image: debian(), mode: 0o600}, record.Permission.ID, "mode 0600, owner 0:0"},
		"another group": {use{image: debian(), mode: 0o660}, record.Permission.ID, "user 1000, group 1000"},
		"a user namespace": {use{image: debian(), mode: 0o660, userns: true, change: capable}, record.Permission.ID,
			"user namespace"},
		"NCCL": {use{image: debian(), change: env("NCCL_IB_HCA=mlx5_0,mlx5_9:1")}, record.Variables.ID,
			`NCCL_IB_HCA names "mlx5_9"`},
		"UCX": {use{image: debian(), change: env("UCX_NET_DEVICES=mlx5_7:1")}, record.Variables.ID,
			`"mlx5_7"`},
		"NVSHMEM": {use{image: debian(), change: env("NVSHMEM_HCA_LIST=mlx5_7:1")}, record.Variables.ID,
			`"mlx5_7"`},
		"a small limit": {use{image: debian(), change: rlimit(64 << 10), args: []string{"--memlock", "1Mi"}},
			record.Memlock.ID,
			"may lock 64 KiB"},
	}
}

// runtimesOf returns the runtimes of a case: runc for all, crun for all in a long run.
func runtimesOf(t *testing.T, second bool) []string {
	needs.Root(t, "containers")
	needs.Program(t, "runc", "apt-get install runc")
	needs.Program(t, "crun", "apt-get install crun")
	if second || needs.IsLong() {
		return []string{"runc", "crun"}
	}
	return []string{"runc"}
}

func TestUsable(t *testing.T) {
	requirements(t)
	path := build(t, ".")
	for i, name := range slices.Sorted(maps.Keys(silent())) {
		for _, runtime := range runtimesOf(t, i%6 == 0) {
			t.Run("healthy/"+runtime+"/"+name, func(t *testing.T) {
				r, code := silent()[name].start(t, runtime, path)
				if found := unusable(r); len(found) > 0 || code != 0 {
					t.Errorf("exit code %d, found %v", code, found)
				}
				isOK := func(c finding.Finding) bool { return c.ID == record.Provider.ID && c.Severity == finding.OK }
				test.NotEq(t, slices.Contains(unknown, name), slices.ContainsFunc(r.Checks, isOK),
					test.Sprintf("checks %v: silent by what is found, or by what is not known?", r.Checks))
			})
		}
	}
	for i, name := range slices.Sorted(maps.Keys(faults())) {
		for _, runtime := range runtimesOf(t, i%6 == 0) {
			t.Run("fault/"+runtime+"/"+name, func(t *testing.T) {
				tt := faults()[name]
				if tt.kind == record.Memlock.ID && runtime == "crun" {
					t.Skip("crun applies the limit before the hook, which raises it")
				}
				r, code := tt.start(t, runtime, path)
				found := unusable(r)
				if len(found) != 1 || found[0].ID != tt.kind || !strings.Contains(found[0].Message, tt.text) || code != 0 {
					t.Errorf("exit code %d, found %v; want %s with %q; all %v", code, found, tt.kind, tt.text, r.Checks)
				}
			})
		}
	}
}

// With --on-unusable fail, a certain fault keeps the container from starting. One that LD_LIBRARY_PATH may heal, a
// variable and what is not checked do not.
func TestUsableFails(t *testing.T) {
	requirements(t)
	path := build(t, ".")
	for _, tt := range []struct {
		name  string
		fails bool
	}{
		{"fault/no providers", true}, {"fault/mode 0600", true}, {"fault/LD_LIBRARY_PATH", false}, {"fault/NCCL", false},
		{"fault/a small limit", false}, {"healthy/no libibverbs", false}, {"healthy/conda", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kind, name, _ := strings.Cut(tt.name, "/")
			u := silent()[name]
			if kind == "fault" {
				u = faults()[name].use
			}
			u.args = append(u.args, "--on-unusable", "fail")
			r, code := u.start(t, "runc", path)
			if (code != 0) != tt.fails || len(r.Checks) == 0 {
				t.Errorf("exit code %d, checks %v", code, r.Checks)
			}
		})
	}
}

func unusable(r record.Report) (out []finding.Finding) {
	for _, c := range r.Checks {
		if c.Severity.Bad() {
			out = append(out, c)
		}
	}
	return out
}

// start starts the container, and returns the hook's report and the runtime's exit code.
func (u use) start(t *testing.T, runtime, hookPath string) (record.Report, int) {
	t.Helper()
	r, _, code := u.run(t, runtime, hookPath)
	return r, code
}

// run starts the container, and returns the hook's report, what the container printed, and the runtime's exit code.
func (u use) run(t *testing.T, runtime, hookPath string) (r record.Report, out string, code int) {
	t.Helper()
	reports := t.TempDir()
	if u.driver == "" {
		u.driver = "mlx5_core"
	}
	args := append([]string{"--hca", "mlx5_0:uverbs0:" + u.driver, "--report", reports}, u.args...)
	c := container{hookArgs: args, command: cmp.Or(u.shell, "true")}
	dir := c.bundle(t, hookPath)
	root := filepath.Join(dir, "rootfs")
	u.image.Make(t, root)
	if u.raw != nil {
		u.raw(t, root)
	}
	spec := c.spec(hookPath)
	u.edit(t, spec)
	config, err := json.Marshal(spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for p := dir; p != "/tmp" && p != "/"; p = filepath.Dir(p) { // the root of a user namespace must get there
		if err := os.Chmod(p, 0o755); err != nil {
			break
		}
	}
	out, code = runIn(t, runtime, dir)
	files, _ := filepath.Glob(reports + "/*.json")
	if len(files) != 1 {
		t.Fatalf("%s: exit code %d, %d reports\n%s", runtime, code, len(files), out)
	}
	text, err := os.ReadFile(files[0])
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{string(text), out} {
		test.False(t, strings.ContainsAny(line, "\x1b\x07"), test.Sprintf("printed raw: %q", line))
	}
	return r, out, code
}

// edit adds the node, mounts and what the case changes.
func (u use) edit(t *testing.T, spec map[string]any) {
	if u.mode == 0 && u.change == nil || u.mode == 0 && u.userns {
		u.mode = 0o666
	}
	node := filepath.Join(t.TempDir(), "uverbs0")
	if err := unix.Mknod(node, unix.S_IFCHR, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	linux := spec["linux"].(map[string]any)
	if u.mode == 0 && !strings.Contains(t.Name(), "CAP_DAC_OVERRIDE") {
		u.mode = 0o666
	}
	if err := os.Chmod(node, os.FileMode(u.mode)); err != nil {
		t.Fatal(err)
	}
	mounts := spec["mounts"].([]any)
	mounts = append(mounts, map[string]any{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"})
	if u.userns {
		linux["namespaces"] = append(linux["namespaces"].([]any), map[string]any{"type": "user"})
		ids := []any{map[string]any{"containerID": 0, "hostID": 100000, "size": 65536}}
		linux["uidMappings"], linux["gidMappings"] = ids, ids
		mounts = append(mounts, bind(node, "/dev/infiniband/uverbs0"))
	} else {
		linux["devices"] = []any{map[string]any{"path": "/dev/infiniband/uverbs0", "type": "c", "major": 1, "minor": 3,
			"fileMode": u.mode, "uid": 0, "gid": 0}}
	}
	if u.mounts != nil {
		mounts = append(mounts, u.mounts(t)...)
	}
	spec["mounts"] = mounts
	spec["root"] = map[string]any{"path": "rootfs"}
	if u.change != nil {
		u.change(spec)
	}
}

// runIn runs a bundle, with the umask of container engines: runtimes make directories of /dev with it. crun accepts no
// hybrid hierarchy of cgroups, so it gets its own view.
func runIn(t *testing.T, runtime, dir string) (out string, code int) {
	t.Helper()
	script := `umask 022 && exec ` + runtime + ` --root "$1" run --bundle "$2" "$3"`
	if runtime == "crun" {
		script = `mount -t cgroup2 none /sys/fs/cgroup && ` + script
	}
	id := "use" + strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789", r) {
			return r
		}
		return '-'
	}, strings.ToLower(containerID(t)))
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, "sh", t.TempDir(), dir, id)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}
