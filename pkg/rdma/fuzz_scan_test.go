package rdma_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// fuzzMachines are small, and odd in many ways.
var fuzzMachines = []string{"soft-pci", "mlx5-sf", "smi-multiplane", "switchdev", "alibaba-erdma", "mlx4-dual-port",
	"irdma-e810", "misbehaving", "azure-mana"}

// FuzzDiscover breaks the sysfs of a machine in any number of places. The scan ends,
// without a panic; an HCA of whose device nothing was broken is in its slot; a node
// belongs to the HCA whose name it says; no two HCAs have one name; and an update that
// is told everything equals a look at the whole host.
//
// The first byte picks the machine. Then come changes: what to do, two bytes for the
// place, a length, and as many bytes of text.
func FuzzDiscover(f *testing.F) {
	var machines []*fixture.Machine
	for i, name := range fuzzMachines {
		machines = append(machines, load(f, name))
		f.Add([]byte{byte(i)})
		f.Add([]byte{byte(i), 0, 0, 40, 3, 'x', ':', '1', 1, 0, 99, 0, 2, 0, 120, 2, '.', '.', 3, 0, 7, 0, 4, 1, 1, 0, 5,
			0, 200, 0, 6, 0, 9, 0})
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) == 0 {
			return
		}
		base := machines[int(script[0])%len(machines)]
		broken, touched := breakTree(base.Tree(), script[1:])
		archive, err := tree.Format("Broken.\n", broken)
		if err != nil {
			t.Skip("not a tree that an archive can hold:", err)
		}
		m, err := fixture.Parse("broken", archive)
		if err != nil {
			t.Skip("not a tree:", err) // something is below a file
		}
		before, err := rdma.Discover(base.FS(t))
		must.NoError(t, err)
		after, err := rdma.Discover(m.FS(t))
		if err != nil {
			_, statErr := fs.Stat(m.FS(t), "class")
			must.Error(t, statErr, must.Sprint(err))
			return
		}
		checkUntouched(t, before, after, base.Tree(), touched)
		checkNodes(t, after, m.FS(t))
		checkNames(t, after)
		checkTold(t, base.FS(t), m.FS(t), after)
	})
}

// breakTree applies a script to a copy of a tree, and returns the paths that it
// changed.
func breakTree(base *tree.Tree, script []byte) (*tree.Tree, []string) {
	broken, entries := &tree.Tree{}, base.Entries()
	if err := base.CopyTo(broken); err != nil {
		panic(err)
	}
	var touched []string
	for len(script) >= 4 {
		n := min(int(script[3]), len(script)-4)
		do, at, text := script[0], int(script[1])<<8|int(script[2]), string(script[4:4+n])
		script = script[4+n:]
		e, other := entries[at%len(entries)], entries[(at*7+n)%len(entries)]
		if e.Path == "sys" || e.Path == "sys/class" {
			continue
		}
		touched = append(touched, e.Path)
		switch do % 7 {
		case 0:
			e = tree.Entry{Path: e.Path, Data: text + "\n"}
		case 1:
			broken.Remove(e.Path)
			continue
		case 2:
			e = tree.Entry{Path: e.Path, Kind: tree.Link, Target: text}
		case 3:
			e = tree.Entry{Path: e.Path, Kind: tree.Link, Target: "/" + other.Path}
		case 4:
			errnos := tree.Errnos()
			e = tree.Entry{Path: e.Path, Kind: tree.Broken, Errno: errnos[at%len(errnos)]}
		case 5:
			other.Path = e.Path
			e = other
		case 6:
			e = tree.Entry{Path: e.Path, Kind: tree.Dir}
		}
		broken.Remove(e.Path)
		// An entry below a file is refused: then this place stays removed.
		if err := broken.Replace(e); err != nil {
			continue
		}
	}
	return broken, touched
}

// checkUntouched: an HCA that was broken nowhere, nor its device, is in its slot.
func checkUntouched(t *testing.T, before, after *rdma.Snapshot, base *tree.Tree, touched []string) {
	t.Helper()
	for i := range before.HCAs {
		h := &before.HCAs[i]
		class := "sys/class/infiniband/" + h.IBDev
		real, err := base.Resolve(class)
		if err != nil || h.Identity.Kind == "siw" { // named after an interface that is elsewhere
			continue
		}
		device, _, _ := strings.Cut(real.Path, "/infiniband/")
		concerned := func(path string) bool {
			return overlap(path, class) || overlap(path, device) && device != "sys/devices/virtual" || overlap(path, real.Path)
		}
		if slices.ContainsFunc(touched, concerned) {
			continue
		}
		now := hca(t, after, h.IBDev)
		a, b := h.Identity, now.Identity
		a.Discriminator, b.Discriminator = "", "" // that is about the neighbours
		test.Eq(t, a, b, test.Sprintf("HCA %s is elsewhere, and nothing of it was touched", h.IBDev))
	}
}

// overlap reports whether one path leads to, or through, the other.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// checkNodes: what an HCA has for its uverbs node says so itself.
func checkNodes(t *testing.T, snap *rdma.Snapshot, sys fs.ReadLinkFS) {
	t.Helper()
	for _, h := range snap.HCAs {
		if h.Uverbs == nil {
			continue
		}
		b, err := fs.ReadFile(sys, "class/infiniband_verbs/"+h.Uverbs.Name+"/ibdev")
		if err != nil || strings.TrimSpace(string(b)) != h.IBDev {
			t.Errorf("HCA %s has node %s, which says %q, error %v", h.IBDev, h.Uverbs.Name, b, err)
		}
		test.NoError(t, rdma.Verify(sys, &h), test.Sprintf("HCA %s", h.IBDev))
	}
}

func checkNames(t *testing.T, snap *rdma.Snapshot) {
	t.Helper()
	ibdevs := map[string]string{}
	for _, h := range snap.HCAs {
		other, ok := ibdevs[h.Name]
		test.True(t, !ok, test.Sprintf("HCAs %s and %s are both called %s", h.IBDev, other, h.Name))
		ibdevs[h.Name] = h.IBDev
	}
}

// checkTold compares an update of the machine as it was before, told of every name
// that there is, with a look at the whole host.
func checkTold(t *testing.T, before, after fs.ReadLinkFS, want *rdma.Snapshot) {
	t.Helper()
	sys := &exchanged{before}
	s := rdma.NewScanner(sys)
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	told := rdma.Changes{Host: true}
	for range 2 {
		for dir, names := range map[string]*rdma.Names{
			"class/infiniband": &told.IBDevs, "class/infiniband_verbs": &told.Nodes, "class/infiniband_mad": &told.Nodes,
			"class/net": &told.Netdevs, "bus/pci/devices": &told.Functions,
		} {
			entries, err := fs.ReadDir(sys, dir)
			if err != nil {
				continue // it may be what was broken
			}
			for _, e := range entries {
				names.Add(e.Name())
			}
		}
		sys.ReadLinkFS = after
	}
	got, err := s.Update(told)
	must.NoError(t, err)
	test.Eq(t, want.HCAs, got.HCAs, test.Sprint("an update that is told everything"))
	s.Poll()
	all, err := s.Update(rdma.Changes{All: true})
	test.True(t, err == nil && cmp.Equal(encode(t, want), encode(t, all)),
		test.Sprintf("Scan differs from Discover, error %v:\n%s", err,
			cmp.Diff(string(encode(t, want)), string(encode(t, all)))))
}

// exchanged is a file system that another one can take the place of.
type exchanged struct{ fs.ReadLinkFS }

func (e *exchanged) ReadFile(name string) ([]byte, error) { return fs.ReadFile(e.ReadLinkFS, name) }
func (e *exchanged) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(e.ReadLinkFS, name)
}
func (e *exchanged) Stat(name string) (fs.FileInfo, error) { return fs.Stat(e.ReadLinkFS, name) }
