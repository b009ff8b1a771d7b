package cdi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/hostfs"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
)

// TestRegistryEqualsLibrary: on random directories the registry has the devices of the CDI library's cache, and finds
// fault with the same files.
func TestRegistryEqualsLibrary(t *testing.T) {
	const seeds = 60
	conflicts, overrides, faults := 0, 0, 0
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 1))
		root := t.TempDir()
		dirs := []string{"/etc/cdi", "/var/run/cdi"}
		var local []string
		for _, dir := range dirs {
			local = append(local, filepath.Join(root, dir))
			if random.IntN(6) > 0 {
				fill(t, random, filepath.Join(root, dir))
			}
		}
		cache, err := cdiapi.NewCache(cdiapi.WithSpecDirs(local...), cdiapi.WithAutoRefresh(false))
		must.NoError(t, err)
		got := cdi.ReadRegistry(hostfs.DirFS(root), dirs...)
		bad := map[string]bool{}
		var names []string
		for _, d := range got.Devices {
			names = append(names, d.Name)
			test.Eq(t, filepath.Join(root, d.File), cache.GetDevice(d.Name).GetSpec().GetPath(),
				test.Sprintf("seed %d: %s is of %s", seed, d.Name, d.File))
			overrides += len(d.Overrides)
		}
		for _, f := range got.Faults {
			bad[filepath.Join(root, f.File)] = true
			faults++
		}
		for _, c := range got.Conflicts {
			conflicts++
			for _, file := range c.Files {
				bad[filepath.Join(root, file)] = true
			}
		}
		want := map[string]bool{}
		for file := range cache.GetErrors() {
			want[file] = true
		}
		test.Eq(t, cache.ListDevices(), names, test.Sprintf("seed %d: devices", seed))
		test.Eq(t, want, bad, test.Sprintf("seed %d: faulty files", seed))
	}
	test.True(t, conflicts != 0 && overrides != 0 && faults != 0,
		test.Sprintf("%d conflicts, %d overrides, %d faults: the test looks at nothing", conflicts, overrides,
			faults))
}

// fill makes a directory with random files.
func fill(t *testing.T, random *rand.Rand, dir string) {
	t.Helper()
	must.NoError(t, os.MkdirAll(dir, 0o755))
	for i := range random.IntN(4) {
		var devices []string
		for _, name := range []string{"a", "b", "c"} {
			if random.IntN(3) == 0 {
				devices = append(devices, "{name: "+name+", containerEdits: {env: [A=B]}}")
			}
		}
		text := fmt.Sprintf("cdiVersion: 0.3.0\nkind: %s\ndevices: [%s]\n",
			[]string{"rdma.dev/hca", "example.com/nic"}[random.IntN(2)], strings.Join(devices, ", "))
		name := fmt.Sprintf("%d%s", i, []string{".json", ".yaml", ".yml", ".txt"}[random.IntN(4)])
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}

// TestRegistryHostile: what would make the library panic, wait or take all memory is a fault, and hides no other file.
func TestRegistryHostile(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "etc/cdi")
	write := func(name, text string) {
		t.Helper()
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	must.NoError(t, os.MkdirAll(filepath.Join(dir, "dir.json"), 0o755))
	const ok = "cdiVersion: 0.3.0\nkind: rdma.dev/hca\ndevices: [{name: a, containerEdits: {env: [A=B]}}]\n"
	write("ok.yaml", ok)
	write("null.yaml", "cdiVersion: 0.3.0\nkind: rdma.dev/x\ndevices: [{name: a, containerEdits: {mounts: [null]}}]\n")
	write("large.json", "")
	err := errors.Join(os.Truncate(filepath.Join(dir, "large.json"), 1<<40),
		os.Symlink("/etc/cdi/missing", filepath.Join(dir, "dangling.json")),
		os.Symlink("/dev/zero", filepath.Join(dir, "zero.json")))
	must.NoError(t, err)
	got := cdi.ReadRegistry(hostfs.DirFS(root), "/etc/cdi")
	var faults []string
	for _, f := range got.Faults {
		faults = append(faults, f.File)
	}
	test.True(t, len(got.Devices) == 1 && got.Devices[0].Name == "rdma.dev/hca=a",
		test.Sprintf("devices %+v", got.Devices))
	test.Eq(t, []string{"/etc/cdi/large.json", "/etc/cdi/null.yaml"}, faults, test.Sprint("faults"))
}
