package cdi_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	ocispec "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	cdiapi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/mounttest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/cdi"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// smallStore is a store with the spec x, on a file system of its own of 64 KiB.
func smallStore(t *testing.T) (dir string, store cdi.Store) {
	t.Helper()
	dir = t.TempDir()
	mounttest.Tmpfs(t, dir, "size=64k")
	store = cdi.Store{Dir: dir}
	_, err := store.Write("x", newSpec(t, "a"), cdi.JSON)
	must.NoError(t, err)
	return dir, store
}

// TestWriteFullDisk: an error, the old file, and no temporary one.
func TestWriteFullDisk(t *testing.T) {
	if !mounttest.Isolated(t) {
		return
	}
	dir, store := smallStore(t)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	must.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	must.NoError(t, filler.Close())
	_, err = store.Write("x", newSpec(t, "a", "b"), cdi.JSON)
	test.True(t, errors.Is(err, syscall.ENOSPC) && strings.Contains(err.Error(), store.Path("x", cdi.JSON)),
		test.Sprintf("error %v; want ENOSPC with the path", err))
	test.Eq(t, 1, len(readSpec(t, store.Path("x", cdi.JSON)).Devices),
		test.Sprint("the old spec is not there any more"))
	holds(t, dir, "filler", "x.json")
}

// TestWriteReadOnly: a read-only file system, as /etc is on some hosts.
func TestWriteReadOnly(t *testing.T) {
	if !mounttest.Isolated(t) {
		return
	}
	dir, store := smallStore(t)
	mounttest.ReadOnly(t, dir)
	changed, err := store.Write("x", newSpec(t, "a"), cdi.JSON)
	test.True(t, !changed && err == nil,
		test.Sprintf("an equal spec: changed %v, error %v; want neither", changed, err))
	_, err = store.Write("x", newSpec(t, "b"), cdi.JSON)
	test.ErrorIs(t, err, syscall.EROFS, test.Sprint("another spec"))
	_, err = store.Remove("x")
	test.ErrorIs(t, err, syscall.EROFS, test.Sprint("remove"))
	_, err = (cdi.Store{Dir: filepath.Join(dir, "cdi")}).Write("x", newSpec(t, "b"),
		cdi.JSON)
	test.ErrorIs(t, err, syscall.EROFS, test.Sprint("new directory"))
	holds(t, dir, "x.json")
}

// TestInject: a runtime that uses the CDI library gives a container the nodes of
// the device it names, with the kernel's numbers, and rdma_cm and the hook once.
// The nodes are real ones, in a /dev of this test's own.
func TestInject(t *testing.T) {
	if !mounttest.Isolated(t) {
		return
	}
	for _, name := range fixture.Names() {
		snap := rdmatest.Snapshot(t, name)
		if len(snap.Usable()) > 0 {
			t.Run(name, func(t *testing.T) { injectHost(t, name, snap) })
		}
	}
}

func injectHost(t *testing.T, machine string, snap *rdma.Snapshot) {
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	mounttest.Tmpfs(t, "/dev", "")
	must.NoError(t, m.MakeNodes("/"))
	cache := storeHost(t, snap)
	for _, h := range snap.Usable() {
		for _, device := range []string{h.IBDev, h.Name} {
			injects(t, cache, []string{device}, expected(snap, h))
		}
	}
	injects(t, cache, []string{"all"}, expected(snap, snap.Usable()...))
	if u := snap.Usable(); len(u) > 1 {
		injects(t, cache, []string{u[0].IBDev, u[1].Name, u[0].Name}, expected(snap, u[0], u[1]))
	}
}

// storeHost writes the spec of a host and opens the directory as a runtime does.
func storeHost(t *testing.T, snap *rdma.Snapshot) *cdiapi.Cache {
	t.Helper()
	devices, _ := cdi.HostDevices(snap, cdi.HostOptions{Names: cdi.DefaultNames, Nodes: rdma.DefaultClasses, Hook: hook})
	spec, err := cdi.NewSpec(cdi.KindHCA, devices)
	must.NoError(t, err)
	dir := t.TempDir()
	_, err = (cdi.Store{Dir: dir}).Write(cdi.SpecName(cdi.KindHCA, ""), spec, cdi.JSON)
	must.NoError(t, err)
	cache, err := cdiapi.NewCache(cdiapi.WithSpecDirs(dir), cdiapi.WithAutoRefresh(false))
	must.NoError(t, err)
	must.MapEmpty(t, cache.GetErrors(), must.Sprint("the CDI library"))
	return cache
}

// expected lists the nodes of HCAs, with the numbers that the kernel gave them.
func expected(snap *rdma.Snapshot, hcas ...*rdma.HCA) []string {
	var want []string
	add := func(n *rdma.Node) {
		want = append(want, fmt.Sprintf("%s c %d:%d", n.Path(), n.Major, n.Minor))
	}
	if snap.RDMACM != nil {
		add(snap.RDMACM)
	}
	for _, h := range hcas {
		add(h.Uverbs)
	}
	slices.Sort(want)
	return want
}

func injects(t *testing.T, cache *cdiapi.Cache, devices, want []string) {
	t.Helper()
	var qualified []string
	for _, d := range devices {
		qualified = append(qualified, cdi.Qualified(cdi.KindHCA, d))
	}
	container := &ocispec.Spec{}
	unresolved, err := cache.InjectDevices(container, qualified...)
	must.NoError(t, err, must.Sprintf("inject %s: %v, unresolved %s", devices, err, unresolved))
	var got []string
	for _, d := range container.Linux.Devices {
		got = append(got, fmt.Sprintf("%s %s %d:%d", d.Path, d.Type, d.Major, d.Minor))
	}
	slices.Sort(got)
	test.SliceEqOp(t, want, got, test.Sprint(devices))
	for _, r := range container.Linux.Resources.Devices {
		test.True(t, r.Allow && r.Access == "rw", test.Sprintf("%s: cgroup rule %+v; want rw", devices, r))
	}
	hooks := container.Hooks.CreateRuntime
	test.True(t, len(hooks) == 1 && hooks[0].Path == hook.Path,
		test.Sprintf("%s: hooks %+v; want one", devices, hooks))
}
