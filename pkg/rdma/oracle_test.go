package rdma_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmamap"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// rdmamap (github.com/Mellanox/rdmamap), which other device plugins use, finds
// the same HCAs, nodes and PCI functions on every machine by its own means. It
// differs where it is known to be wrong, and nowhere else:
//
//   - it takes an entry of /sys/class/infiniband for a device, also when the
//     entry leads nowhere because the device has just gone;
//   - it does not read the number of a node, and lists one that has none;
//   - it leaves out a node whose ibdev file cannot be read, and so do we.
var (
	oracleListsVanished   = map[string][]string{"misbehaving": {"mlx5_2"}}
	oracleListsNumberless = map[string][]string{"misbehaving mlx5_5": {"uverbs4"}, "misbehaving mlx5_7": {"uverbs6"}}
)

func TestOracle(t *testing.T) {
	for _, name := range fixture.Names() {
		t.Run(name, func(t *testing.T) {
			root := extract(t, name)
			snap, err := rdma.Discover(os.DirFS(filepath.Join(root, "sys")).(fs.ReadLinkFS))
			must.NoError(t, err)
			oracle, err := rdmamap.Open(root)
			must.NoError(t, err)
			compareDevices(t, oracle, snap, name)
			compareNodes(t, oracle, snap, name)
			comparePCI(t, oracle, snap, root)
			compareAux(t, oracle, snap, root)
		})
	}
}

func compareDevices(t *testing.T, oracle *rdmamap.Map, snap *rdma.Snapshot, machine string) {
	theirs, err := oracle.Devices()
	must.NoError(t, err)
	ours := slices.Clone(oracleListsVanished[machine])
	for _, h := range snap.HCAs {
		ours = append(ours, h.IBDev)
	}
	same(t, "HCAs", theirs, ours)
}

func compareNodes(t *testing.T, oracle *rdmamap.Map, snap *rdma.Snapshot, machine string) {
	for _, h := range snap.HCAs {
		theirs, err := oracle.CharDevices(h.IBDev)
		must.NoError(t, err)
		var ours []string
		for _, name := range oracleListsNumberless[machine+" "+h.IBDev] {
			ours = append(ours, filepath.Join(rdma.DevDir, name))
		}
		for _, n := range h.MADs {
			ours = append(ours, n.Path())
		}
		for _, n := range []*rdma.Node{h.Uverbs, snap.RDMACM} {
			if n != nil {
				ours = append(ours, n.Path())
			}
		}
		same(t, "nodes of "+h.IBDev, theirs, ours)
	}
}

// comparePCI asks for every PCI function of the host, those without HCA included.
func comparePCI(t *testing.T, oracle *rdmamap.Map, snap *rdma.Snapshot, root string) {
	ours := map[string][]string{}
	for _, h := range snap.HCAs {
		if h.PCI != nil && h.Identity.SF == nil {
			ours[h.PCI.Address] = append(ours[h.PCI.Address], h.IBDev)
		}
	}
	for _, address := range names(t, filepath.Join(root, "sys/bus/pci/devices")) {
		theirs, err := oracle.DevicesForPCI(address)
		must.NoError(t, err)
		same(t, "HCAs of "+address, theirs, ours[address])
		delete(ours, address)
	}
	test.Eq(t, 0, len(ours), test.Sprintf("HCAs on functions that the bus does not list: %v", ours))
}

// compareAux asks for every auxiliary device. One with a number is a subfunction;
// those of other drivers (ice.roce.0) carry no HCA themselves.
func compareAux(t *testing.T, oracle *rdmamap.Map, snap *rdma.Snapshot, root string) {
	ours := map[string][]string{}
	for _, h := range snap.HCAs {
		if h.Identity.SF != nil {
			key := h.PF + " " + strconv.Itoa(*h.Identity.SF)
			ours[key] = append(ours[key], h.IBDev)
		}
	}
	dir := filepath.Join(root, "sys/bus/auxiliary/devices")
	for _, name := range names(t, dir) {
		theirs, err := oracle.DevicesForAux(name)
		must.NoError(t, err)
		real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		must.NoError(t, err)
		sf, _ := os.ReadFile(filepath.Join(real, "sfnum")) // absent of others
		key := filepath.Base(filepath.Dir(real)) + " " + strings.TrimSpace(string(sf))
		same(t, "HCAs of "+name, theirs, ours[key])
		delete(ours, key)
	}
	test.Eq(t, 0, len(ours), test.Sprintf("HCAs on subfunctions that the bus does not list: %v", ours))
}

func same(t *testing.T, what string, theirs, ours []string) {
	t.Helper()
	ours = slices.Sorted(slices.Values(ours))
	diff := cmp.Diff(theirs, ours)
	test.True(t, diff == "" || len(theirs)+len(ours) == 0, test.Sprintf("%s (-rdmamap +ours):\n%s", what, diff))
}

// names lists a directory, which may be absent.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.True(t, err == nil || os.IsNotExist(err), must.Sprint(err))
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// extract writes a machine below a host root of its own. rdma_cm is a plain file
// there, since rdmamap looks for the node and only root may make one.
func extract(t *testing.T, machine string) string {
	t.Helper()
	root := rdmatest.TempDir(t)
	m := load(t, machine)
	must.NoError(t, m.Extract(root))
	dev := filepath.Join(root, rdma.DevDir)
	must.NoError(t, os.MkdirAll(dev, 0o755))
	for _, n := range m.Nodes() {
		must.NoError(t, os.WriteFile(filepath.Join(dev, n.Name), nil, 0o644))
	}
	return root
}
