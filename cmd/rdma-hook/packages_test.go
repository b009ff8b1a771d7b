package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/userspace"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/rdmaimage"
)

// These tests start containers with Debian's own packages of rdma-core. What the container itself can do with the HCA
// confirms each verdict of the hook: ibv_devices lists it on a made-up sysfs, the node can be opened, memory locked.

// verdict prints what the container can do.
const verdict = `/usr/bin/ibv_devices; (: <>/dev/infiniband/uverbs0) && echo opened; ulimit -l`

// packaged is a container with Debian's packages.
type packaged struct {
	use
	without func(t *testing.T, root string) // changes the packages' files
	kind    string                          // of the only fault, "" for none
	text    string                          // in its message
}

func libDir(root string) string { return filepath.Join(root, "usr/lib", rdmaimage.Triplet) }

// providersOf are the files of providers.
func providersOf(t *testing.T, root string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(libDir(root), "libibverbs/*.so"))
	if err != nil || len(files) < 5 {
		t.Fatalf("the packages have providers %v, %v", files, err)
	}
	return files
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func noProviders(t *testing.T, root string) {
	must(t, os.RemoveAll(filepath.Join(libDir(root), "libibverbs")), os.RemoveAll(filepath.Join(root, "etc/libibverbs.d")))
}

// olderProviders are those of a release with another private ABI.
func olderProviders(t *testing.T, root string) {
	for _, file := range providersOf(t, root) {
		base, _, _ := strings.Cut(filepath.Base(file), "-rdmav")
		must(t, os.Rename(file, filepath.Join(filepath.Dir(file), base+"-rdmav17.so")))
	}
}

// otherVersion is a provider that was linked with a libibverbs of another private ABI.
func otherVersion(t *testing.T, root string) {
	for _, file := range providersOf(t, root) {
		data, err := os.ReadFile(file)
		must(t, err)
		data = bytes.ReplaceAll(data, []byte("IBVERBS_PRIVATE_34\x00"), []byte("IBVERBS_PRIVATE_17\x00"))
		must(t, os.Remove(file), os.WriteFile(file, data, 0o644), os.Chmod(file, 0o644))
	}
}

func noLibnl(t *testing.T, root string) {
	files, err := filepath.Glob(filepath.Join(libDir(root), "libnl-3.so*"))
	must(t, err)
	for _, file := range files {
		must(t, os.Remove(file))
	}
}

func noName(t *testing.T, root string) {
	must(t, os.Remove(filepath.Join(root, "etc/libibverbs.d/mlx5.driver")))
}

// doca lays the files out as DOCA's packages do: with libraries of its own in /opt, which only the linker's cache has.
func doca(t *testing.T, root string) {
	dir := filepath.Join(root, "opt/mellanox/doca/lib", rdmaimage.Triplet)
	conf := filepath.Join(root, "etc/ld.so.conf.d")
	must(t, os.MkdirAll(dir, 0o755), os.MkdirAll(conf, 0o755))
	data, err := os.ReadFile(filepath.Join(libDir(root), "libnl-route-3.so.200"))
	must(t, err, os.WriteFile(filepath.Join(dir, "libdoca_common.so.2"), data, 0o644))
	for path, text := range map[string]string{
		"etc/ld.so.conf":                "include /etc/ld.so.conf.d/*.conf\n",
		"etc/ld.so.conf.d/triplet.conf": "/usr/lib/" + rdmaimage.Triplet + "\n",
		"etc/ld.so.conf.d/doca.conf":    "/opt/mellanox/doca/lib/" + rdmaimage.Triplet + "\n",
	} {
		must(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o644))
	}
	out, err := exec.Command(ldconfig(t), "-r", root).CombinedOutput()
	if err != nil {
		t.Fatalf("ldconfig: %v: %s", err, out)
	}
	must(t, exec.Command("chmod", "-R", "a+rX", filepath.Join(root, "opt"), filepath.Join(root, "etc")).Run())
}

func ldconfig(t *testing.T) string {
	if path, err := exec.LookPath("/sbin/ldconfig"); err == nil {
		return path
	}
	return needs.Program(t, "ldconfig", "apt-get install libc-bin")
}

func both(a, b func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		a(t, root)
		b(t, root)
	}
}

// noRDMACore is an image of another purpose, which userspace: host is for.
func noRDMACore(t *testing.T, root string) {
	noProviders(t, root)
	for _, pattern := range []string{"libibverbs.so*", "librdmacm.so*", "libnl*", "libmlx*", "libefa*", "libmana*", "libhns*"} {
		files, err := filepath.Glob(filepath.Join(libDir(root), pattern))
		must(t, err)
		for _, file := range files {
			must(t, os.Remove(file))
		}
	}
}

// hostOf mounts the RDMA user space of a host with Debian's packages, as userspace: host does.
func hostOf(suite string) func(*testing.T) []any {
	return func(t *testing.T) (mounts []any) {
		host := t.TempDir()
		rdmaimage.CopyPackages(t, suite, host)
		plan, err := userspace.Find(os.DirFS(host).(fs.ReadLinkFS), userspace.Options{Machine: elf.EM_X86_64})
		must(t, err)
		for _, m := range plan.Mounts {
			mounts = append(mounts, bind(host+m.HostPath, m.ContainerPath))
		}
		return mounts
	}
}

// healthyPackages are containers that can use their HCA.
func healthyPackages(suite string) map[string]packaged {
	return map[string]packaged{
		"as it is":         {},
		"DOCA":             {without: doca},
		"userspace host":   {without: noRDMACore, use: use{mounts: hostOf(suite)}},
		"a volume":         {use: use{mounts: over("/data", rdmaimage.Empty())}},
		"a user namespace": {use: use{userns: true}},
		"variables":        {use: use{change: env("NCCL_IB_HCA==mlx5_0", "UCX_NET_DEVICES=mlx5_0:1", "LD_LIBRARY_PATH=/usr/local/nvidia/lib64")}},
	}
}

// faultyPackages are containers with one fault each.
func faultyPackages(suite string) map[string]packaged {
	return map[string]packaged{
		"no providers":            {without: noProviders, kind: record.Provider.ID, text: "no provider mlx5"},
		"no name of the provider": {without: noName, kind: record.Provider.ID, text: "no file in"},
		"another private ABI":     {without: olderProviders, kind: record.Provider.ID, text: "another private ABI"},
		"another version":         {without: otherVersion, kind: record.Provider.ID, text: `private ABI "17"`},
		"no libnl":                {without: noLibnl, kind: record.Provider.ID, text: "libnl"},
		"DOCA without providers":  {without: both(doca, noProviders), kind: record.Provider.ID, text: "no provider mlx5"},
		"a volume over it": {use: use{mounts: over("/usr/lib/"+rdmaimage.Triplet+"/libibverbs", rdmaimage.Empty())},
			kind: record.Provider.ID, text: "does not exist"},
		"permission": {use: use{mode: 0o660}, kind: record.Permission.ID, text: "user 1000, group 1000"},
		"variables":  {use: use{change: env("NCCL_IB_HCA==mlx5_7")}, kind: record.Variables.ID, text: `"mlx5_7"`},
		"memlock": {use: use{change: rlimit(64 << 10), args: []string{"--memlock", "1Mi"}}, kind: record.Memlock.ID,
			text: "may lock 64 KiB"},
	}
}

// TestUsablePackages: with Debian's real packages under runc and crun, each fault is found once, the healthy containers
// cause no finding, and what the container can do confirms the verdict.
func TestUsablePackages(t *testing.T) {
	requirements(t)
	if goruntime.GOARCH != "amd64" {
		t.Skip("the private ABIs of other processors' packages were not looked at")
	}
	suites := []string{"bookworm", "trixie"}
	if needs.IsLong() {
		suites = append(suites, "forky")
	}
	path := build(t, ".")
	healthy := 0
	for _, suite := range suites {
		rdmaimage.Packages(t, suite)
		for _, name := range slices.Sorted(maps.Keys(healthyPackages(suite))) {
			for _, runtime := range runtimesOf(t, true) {
				healthy++
				t.Run(fmt.Sprintf("%s/%s/healthy/%s", suite, runtime, name), func(t *testing.T) {
					healthyPackages(suite)[name].check(t, suite, runtime, path)
				})
			}
		}
		for i, name := range slices.Sorted(maps.Keys(faultyPackages(suite))) {
			if suite != suites[0] && i%3 > 0 && !needs.IsLong() {
				continue // the same with other versions
			}
			for _, runtime := range runtimesOf(t, i%4 == 0) {
				t.Run(fmt.Sprintf("%s/%s/fault/%s", suite, runtime, name), func(t *testing.T) {
					faultyPackages(suite)[name].check(t, suite, runtime, path)
				})
			}
		}
	}
	test.GreaterEq(t, 20, healthy, test.Sprintf("only %d healthy containers", healthy))
}

func (p packaged) check(t *testing.T, suite, runtime, path string) {
	if p.kind == record.Memlock.ID && runtime == "crun" {
		t.Skip("crun applies the limit before the hook, which raises it")
	}
	p.image, p.shell = rdmaimage.Empty(), verdict
	p.raw = func(t *testing.T, root string) {
		rdmaimage.CopyPackages(t, suite, root)
		if p.without != nil {
			p.without(t, root)
		}
		for _, point := range []string{"fixture", "data"} {
			must(t, os.Mkdir(filepath.Join(root, point), 0o755), os.Chmod(filepath.Join(root, point), 0o755))
		}
	}
	mounts, change := p.mounts, p.change
	p.mounts = func(t *testing.T) (all []any) {
		if mounts != nil {
			all = mounts(t)
		}
		return append(all, bind(madeUpSysfs(t), "/fixture"))
	}
	p.change = func(spec map[string]any) {
		if change != nil {
			change(spec)
		}
		values, _ := process(spec)["env"].([]string)
		process(spec)["env"] = append(slices.Clone(values), "SYSFS_PATH=/fixture")
		refuseNetlink(spec)
	}
	if p.mode == 0 {
		p.mode = 0o666
	}
	r, out, code := p.run(t, runtime, path)
	found := unusable(r)
	switch {
	case p.kind == "" && len(found) > 0:
		t.Errorf("found %v in a healthy container", found)
	case p.kind != "" && (len(found) != 1 || found[0].ID != p.kind || !strings.Contains(found[0].Message, p.text)):
		t.Errorf("found %v; want %s with %q; all %v", found, p.kind, p.text, r.Checks)
	}
	good := func(c finding.Finding) bool { return c.Severity == finding.OK }
	if p.kind == "" && !slices.ContainsFunc(r.Checks, func(c finding.Finding) bool {
		return c.ID == record.Provider.ID &&
			good(c)
	}) {
		t.Errorf("the provider was not checked: %v", r.Checks)
	}
	if listed := strings.Contains(out, "mlx5_0") && strings.Contains(out,
		"0011223344556677"); listed == (p.kind == record.Provider.ID) {
		t.Errorf("exit code %d, ibv_devices lists the HCA: %t\n%s", code, listed, out)
	}
	// On a host whose /tmp has no devices, the node that is mounted into a user namespace cannot be opened.
	if opened := strings.Contains(out, "opened"); opened == (p.kind == record.Permission.ID) && !p.userns {
		t.Errorf("the node was opened: %t\n%s", opened, out)
	}
	small := strings.HasSuffix(strings.TrimSpace(out), "\n64")
	if p.args != nil && small != (p.kind == record.Memlock.ID) {
		t.Errorf("the container can lock 64 KiB only: %t\n%s", small, out)
	}
}

// madeUpSysfs makes a sysfs with the files of one HCA that libibverbs reads, and returns its directory.
func madeUpSysfs(t *testing.T) string {
	t.Helper()
	i := rdmaimage.Empty()
	for name, text := range map[string]string{
		"infiniband_verbs/abi_version":         "6",
		"infiniband_verbs/uverbs0/ibdev":       "mlx5_0",
		"infiniband_verbs/uverbs0/dev":         "231:192",
		"infiniband_verbs/uverbs0/abi_version": "1",
		"infiniband/mlx5_0/node_type":          "1: CA",
		"infiniband/mlx5_0/node_guid":          "0011:2233:4455:6677",
		"infiniband/mlx5_0/device/modalias":    "pci:v000015B3d00001021sv000015B3sd00000022bc02sc00i00",
	} {
		i.Files["class/"+name] = text + "\n"
	}
	dir := t.TempDir()
	i.Make(t, dir)
	return dir
}

// refuseNetlink keeps libibverbs from asking the kernel for its own HCAs, instead of the made-up ones in sysfs.
func refuseNetlink(spec map[string]any) {
	const netlink, rdma, protocolNotSupported = 16, 20, 93
	is := func(index, value int) any { return map[string]any{"index": index, "value": value, "op": "SCMP_CMP_EQ"} }
	spec["linux"].(map[string]any)["seccomp"] = map[string]any{
		"defaultAction": "SCMP_ACT_ALLOW",
		"syscalls": []any{map[string]any{"names": []string{"socket"}, "action": "SCMP_ACT_ERRNO",
			"errnoRet": protocolNotSupported, "args": []any{is(0, netlink), is(2, rdma)}}},
	}
}
