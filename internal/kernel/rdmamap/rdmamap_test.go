package rdmamap_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
)

// extract writes a machine below a new host root. Its rdma_cm is a plain file, which is all that the library looks for.
func extract(t *testing.T, name string) string {
	t.Helper()
	m, err := fixture.Load(name)
	must.NoError(t, err)
	root := rdmatest.Root(t, name)
	dev := filepath.Join(root, "dev", "infiniband")
	must.NoError(t, os.MkdirAll(dev, 0o755))
	for _, n := range m.Nodes() {
		must.NoError(t, os.WriteFile(filepath.Join(dev, n.Name), nil, 0o600))
	}
	return root
}

// open opens the map of a host root.
func open(t *testing.T, root string) *rdmamap.Map {
	t.Helper()
	m, err := rdmamap.Open(root)
	must.NoError(t, err)
	return m
}

func TestOpen(t *testing.T) {
	if _, err := rdmamap.Open(filepath.Join(t.TempDir(), "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open without a sys gives %v, want ErrNotExist", err)
	}
}

func TestLookups(t *testing.T) {
	for _, c := range []struct {
		machine, what string
		lookup        func(*rdmamap.Map) ([]string, error)
		want          []string
	}{
		{"roce-lag", "Devices", (*rdmamap.Map).Devices, []string{"mlx5_bond_0"}},
		{"none", "Devices", (*rdmamap.Map).Devices, nil},
		{"empty-classes", "Devices", (*rdmamap.Map).Devices, nil},
		{"soft-pci", "Devices", (*rdmamap.Map).Devices, []string{"rxe0", "rxe1", "rxe2", "rxe3", "siw0"}},
		{"roce-sriov", "VF", pci("0000:3b:01.1"), []string{"mlx5_9"}},
		{"roce-lag", "function without HCA", pci("0000:3b:00.1"), nil},
		{"smi-multiplane", "function with two HCAs", pci("0000:08:00.1"), []string{"ibp8s0f1", "smi1"}},
		{"azure-mana", "function on VMBUS", pci("7870:00:00.0"), []string{"mana_0"}},
		{"mlx5-sf", "PF without its SFs", pci("0000:c1:00.0"), []string{"mlx5_0"}},
		{"mlx5-sf", "SF", aux("mlx5_core.sf.4"), []string{"mlx5_1"}},
		{"mlx5-sf", "SF without HCA", aux("mlx5_core.sf.6"), nil},
		{"mlx4-dual-port", "both ports", char("mlx4_0"), nodes("issm0", "issm1", "rdma_cm", "umad0", "umad1", "uverbs0")},
		{"aws-p5", "EFA", char("rdmap79s0"), nodes("uverbs0")},
		{"soft-pci", "iWARP", char("siw0"), nodes("rdma_cm", "uverbs2")},
		{"misbehaving", "no uverbs", char("mlx5_3"), nodes("issm3", "rdma_cm", "umad3")},
	} {
		t.Run(c.machine+" "+c.what, func(t *testing.T) {
			t.Parallel()
			got, err := c.lookup(open(t, extract(t, c.machine)))
			must.NoError(t, err)
			if diff := cmp.Diff(c.want, got); diff != "" && len(got)+len(c.want) > 0 {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
		})
	}
}

func pci(bdf string) func(*rdmamap.Map) ([]string, error) {
	return func(m *rdmamap.Map) ([]string, error) { return m.DevicesForPCI(bdf) }
}

func aux(name string) func(*rdmamap.Map) ([]string, error) {
	return func(m *rdmamap.Map) ([]string, error) { return m.DevicesForAux(name) }
}

func char(ibdev string) func(*rdmamap.Map) ([]string, error) {
	return func(m *rdmamap.Map) ([]string, error) { return m.CharDevices(ibdev) }
}

func nodes(names ...string) []string {
	for i, name := range names {
		names[i] = "/dev/infiniband/" + name
	}
	return names
}

func TestNotThere(t *testing.T) {
	m := open(t, extract(t, "exclusive-netns"))
	for what, lookup := range map[string]func(*rdmamap.Map) ([]string, error){
		"PCI function": pci("0000:ff:00.0"), "auxiliary device": aux("mlx5_core.sf.1"), "RDMA device": char("mlx5_7"),
	} {
		if _, err := lookup(m); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), what) {
			t.Errorf("lookup of an unknown %s gives %v, want ErrNotExist", what, err)
		}
	}
	for _, name := range []string{"", ".", "..", "../pci", "a/b", "a\x00"} {
		if _, err := m.DevicesForPCI(name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("DevicesForPCI(%q) gives %v, want that it is no name", name, err)
		}
	}
}

// TestUnreadableDirectory is what the library takes for "no devices".
func TestUnreadableDirectory(t *testing.T) {
	root := t.TempDir()
	class := filepath.Join(root, "sys", "class")
	must.NoError(t, os.MkdirAll(class, 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(class, "infiniband"), nil, 0o600))
	if devices, err := open(t, root).Devices(); err == nil {
		t.Errorf("Devices = %v, want an error", devices)
	}
}

// TestSideBySide uses maps of two hosts from many goroutines at once; the race detector looks at the library's roots.
func TestSideBySide(t *testing.T) {
	want := map[string][]string{"roce-lag": {"mlx5_bond_0"}, "mlx4-dual-port": {"mlx4_0"}}
	var wg sync.WaitGroup
	for name, devices := range want {
		m := open(t, extract(t, name))
		for range 8 {
			wg.Go(func() {
				for range 50 {
					if got, err := m.Devices(); err != nil || !slices.Equal(got, devices) {
						t.Errorf("Devices of %s = %v, %v, want %v", name, got, err, devices)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

func ExampleOpen() {
	m, err := rdmamap.Open("/")
	if err != nil {
		fmt.Println(err)
		return
	}
	devices, err := m.DevicesForPCI("0000:3b:00.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, ibdev := range devices {
		nodes, err := m.CharDevices(ibdev)
		fmt.Println(ibdev, nodes, err)
	}
}
