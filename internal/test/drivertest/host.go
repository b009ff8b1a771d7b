package drivertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

// Host is the hardware of a node: a directory with sys and dev.
type Host struct {
	// Root is what the driver is given as --host-root.
	Root string

	cgroups string // what it has below sys/fs/cgroup
}

// NewHost makes a host with the hardware of a fixture machine. Device nodes are
// real, so it needs root.
func NewHost(t testing.TB, machine string) *Host {
	t.Helper()
	h := &Host{Root: TempDir(t), cgroups: newCgroups(t)}
	h.Become(t, load(t, machine))
	return h
}

func load(t testing.TB, machine string) *fixture.Machine {
	t.Helper()
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	return m
}

// Become gives the host other hardware, at once: for a program that looks again
// it is as if the kernel had changed its mind.
func (h *Host) Become(t testing.TB, m *fixture.Machine) {
	t.Helper()
	RequireRoot(t)
	tree := TempDir(t)
	must.NoError(t, m.Extract(tree))
	must.NoError(t, m.MakeNodes(tree))
	for _, dir := range []string{"dev", "sys/fs"} {
		must.NoError(t, os.MkdirAll(filepath.Join(tree, dir), 0o755))
	}
	must.NoError(t, os.Symlink(h.cgroups, filepath.Join(tree, "sys/fs/cgroup")))
	for _, dir := range []string{"dev", "sys"} {
		link := filepath.Join(h.Root, dir)
		must.NoError(t, os.Symlink(filepath.Join(tree, dir), link+".new"))
		must.NoError(t, os.Rename(link+".new", link))
	}
}

// Node is the path of a device node on the host.
func (h *Host) Node(name string) string { return filepath.Join(h.Root, "dev/infiniband", name) }

// Swapped returns a machine with pairs of names exchanged wherever they stand:
// Swapped(t, "hgx-h100", "mlx5_0", "mlx5_1") is that machine after the kernel
// found its cards in another order.
func Swapped(t testing.TB, machine string, names ...string) *fixture.Machine {
	t.Helper()
	var pairs []string
	for i := 0; i < len(names); i += 2 {
		pairs = append(pairs, names[i], names[i+1], names[i+1], names[i])
	}
	swap := strings.NewReplacer(pairs...)
	var out tree.Tree
	for _, e := range load(t, machine).Tree().Entries() {
		e.Path, e.Target, e.Data = swap.Replace(e.Path), swap.Replace(e.Target), swap.Replace(e.Data)
		must.NoError(t, out.Write(e))
	}
	return changed(machine, &out)
}

// Without returns a machine without the entries whose path contains one of the
// texts, such as a device whose driver was unloaded.
func Without(t testing.TB, machine string, texts ...string) *fixture.Machine {
	t.Helper()
	var out tree.Tree
	for _, e := range load(t, machine).Tree().Entries() {
		keep := true
		for _, text := range texts {
			keep = keep && !strings.Contains(e.Path, text)
		}
		if !keep {
			continue
		}
		must.NoError(t, out.Write(e))
	}
	return changed(machine, &out)
}

// changed is a machine with other entries.
func changed(name string, entries *tree.Tree) *fixture.Machine {
	return fixture.New(name, fmt.Sprintf("Machine %s, changed by a test.", name), entries)
}
