package rdma_test

import (
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestDiscoverTwice: the same tree gives the same bytes.
func TestDiscoverTwice(t *testing.T) {
	for _, name := range fixture.Names() {
		test.Eq(t, encode(t, discover(t, name)), encode(t, discover(t, name)),
			test.Sprintf("%s: two runs differ", name))
	}
}

// TestDiscoverInAnyOrder: the order in which a directory lists its entries, which
// on sysfs is that of creation, does not show.
func TestDiscoverInAnyOrder(t *testing.T) {
	for _, name := range fixture.Names() {
		want := encode(t, discover(t, name))
		for seed := range uint64(5) {
			sys := shuffled{load(t, name).FS(t), rand.New(rand.NewPCG(seed, 0))}
			snap, err := rdma.Discover(sys)
			must.NoError(t, err)
			test.Eq(t, string(want), string(encode(t, snap)),
				test.Sprintf("%s, seed %d: the order of entries shows", name, seed))
		}
	}
}

// shuffled lists directories in a random order.
type shuffled struct {
	*fixture.FS
	rand *rand.Rand
}

func (s shuffled) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := s.FS.ReadDir(name)
	s.rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	return entries, err
}

// TestDiscoverNoSysfs: a wrong root is an error, not a host without RDMA.
func TestDiscoverNoSysfs(t *testing.T) {
	_, err := rdma.Discover(fstest.MapFS{"class.txt": {}})
	test.ErrorContains(t, err, "root of a sysfs tree")
}

// TestDiscoverNothing: programs iterate over hcas, so it is a list also when empty.
func TestDiscoverNothing(t *testing.T) {
	for _, name := range []string{"none", "empty-classes"} {
		snap := discover(t, name)
		test.True(t, snap.HCAs != nil && len(snap.HCAs) == 0 && len(snap.Problems) == 0,
			test.Sprintf("%s: %d HCAs (nil: %v), problems %v; want an empty list", name, len(snap.HCAs),
				snap.HCAs == nil, snap.Problems))
	}
}

// TestDiscoverLooseTree: a copy of sysfs in which class entries are directories
// of their own, as cp -rL makes them, has the same HCAs in the same slots.
func TestDiscoverLooseTree(t *testing.T) {
	const dir = "class/infiniband/mlx5_0/"
	sys := fstest.MapFS{
		dir + "device": {Data: []byte("../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
			Mode: fs.ModeSymlink},
		dir + "node_type":          {Data: []byte("1: CA\n")},
		dir + "ports/1/link_layer": {Data: []byte("InfiniBand\n")},
		"devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/uevent": {Data: []byte("DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_ID=15B3:1021\n")},
	}
	snap, err := rdma.Discover(sys)
	must.NoError(t, err)
	test.True(t, len(snap.HCAs) == 1 && snap.HCAs[0].Name == "pci-0000-3b-00-0" &&
		snap.HCAs[0].PCI.Vendor == "15b3" && snap.HCAs[0].Driver == "mlx5_core",
		test.Sprintf("snapshot %s", encode(t, snap)))
}

// TestDiscoverMisbehaving: what is broken is listed, and hides nothing else.
func TestDiscoverMisbehaving(t *testing.T) {
	snap := discover(t, "misbehaving")
	var ibdevs []string
	for _, h := range snap.HCAs {
		ibdevs = append(ibdevs, h.IBDev)
	}
	// mlx5_2 has vanished: a name without a device is no HCA.
	want := []string{"mlx5_0", "mlx5_1", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9"}
	test.Eq(t, want, ibdevs, test.Sprint("HCAs"))
	for _, problem := range []string{
		"uverbs2/ibdev: no such device",
		"HCA mlx5_4: ", "ports/1/state: input/output error", "ports/1/rate: connection timed out",
		"HCA mlx5_5: read device number of uverbs4: the dev file is empty or gone", "board_id: invalid argument",
		"HCA mlx5_7: read device number of uverbs6: parse device number \"garbage\"",
		"HCA mlx5_9: ", "uevent: input/output error",
	} {
		test.True(t, slices.ContainsFunc(snap.Problems, func(p rdma.Problem) bool { return strings.Contains(p.Error(), problem) }),
			test.Sprintf("no problem says %q: %v", problem, snap.Problems))
	}
	for _, p := range snap.Problems {
		test.True(t, p.IBDev != "mlx5_0" && p.IBDev != "mlx5_8" && p.Message != "",
			test.Sprintf("problem %q of %q", p.Message, p.IBDev))
	}
}

// TestUsable: which HCAs of the odd machines a container can be given.
func TestUsable(t *testing.T) {
	for machine, want := range map[string][]string{
		"misbehaving":    {"mlx5_0", "mlx5_1", "mlx5_4", "mlx5_6", "mlx5_8", "mlx5_9"},
		"smi-multiplane": {"ibp8s0f0", "ibp8s0f1"},
		"switchdev":      {"rdmap8s0f0", "rocep8s0f0v0", "rocep8s0f0v1"},
		"omnipath-hfi1":  {"hfi1_0"},
	} {
		var got []string
		for _, h := range discover(t, machine).Usable() {
			got = append(got, h.IBDev)
		}
		test.Eq(t, want, got, test.Sprint(machine))
	}
}

func load(t testing.TB, machine string) *fixture.Machine {
	t.Helper()
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	return m
}

// variant is the snapshot of a machine with some text of its archive replaced,
// given as pairs of old and new.
func variant(t testing.TB, machine string, oldnew ...string) *rdma.Snapshot {
	t.Helper()
	snap, err := rdma.Discover(variantFS(t, machine, oldnew...))
	must.NoError(t, err)
	return snap
}

func variantFS(t testing.TB, machine string, oldnew ...string) *fixture.FS {
	t.Helper()
	archive, err := fixture.Archive(machine)
	must.NoError(t, err)
	for i := 0; i < len(oldnew); i += 2 {
		must.StrContains(t, string(archive), oldnew[i], must.Sprintf("machine %s has no", machine))
	}
	m, err := fixture.Parse(machine, []byte(strings.NewReplacer(oldnew...).Replace(string(archive))))
	must.NoError(t, err)
	return m.FS(t)
}

// hca returns an HCA of a snapshot by its kernel name.
func hca(t testing.TB, snap *rdma.Snapshot, ibdev string) *rdma.HCA {
	t.Helper()
	for i := range snap.HCAs {
		if snap.HCAs[i].IBDev == ibdev {
			return &snap.HCAs[i]
		}
	}
	t.Fatalf("no HCA %s in the snapshot", ibdev)
	return nil
}
