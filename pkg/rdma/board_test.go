package rdma_test

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/cdigen/capture/tree"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/counted"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestDataDirect: both PFs of a card have its DMA function, and only VPD says which one that is.
func TestDataDirect(t *testing.T) {
	snap := discover(t, "gb300-cx8")
	for i, want := range []string{"0009", "0009", "0008", "0008", "0019", "0019", "0018", "0018"} {
		h := &snap.HCAs[i]
		f := h.DataDirect
		if f == nil || h.DataFunction() != f {
			t.Errorf("%s: no DMA function", h.IBDev)
			continue
		}
		test.True(t, f.Address == want+":03:00.0" && f.Root == "pci"+want+":00" &&
			f.Switch() == want+":01:00.0" && f.Device == "2100" && *f.NUMANode == i/4 && h.PCI.Root != f.Root &&
			h.Unusable() == nil,
			test.Sprintf("%s of %s: DMA function %+v; want that in domain %s", h.IBDev, h.PCI.Address, f, want))
	}
	for _, machine := range []string{"smi-multiplane", "hgx-b300", "gb200-cx7", "hgx-h100"} {
		for _, h := range discover(t, machine).HCAs {
			test.True(t, h.DataDirect == nil && h.DataFunction() == h.PCI,
				test.Sprintf("%s, %s: DMA function %+v", machine, h.IBDev, h.DataDirect))
		}
	}
}

// changed returns a machine after changes to its entries.
func changed(t *testing.T, machine string, change func(*tree.Tree)) *fixture.Machine {
	t.Helper()
	m, err := fixture.Load(machine)
	must.NoError(t, err)
	x := m.Tree().Clone()
	change(x)
	return fixture.New(machine, m.Description, x)
}

const (
	dma9 = "sys/devices/pci0009:00/0009:00:00.0/0009:01:00.0/0009:02:00.0/0009:03:00.0"
	dma8 = "sys/devices/pci0008:00/0008:00:00.0/0008:01:00.0/0008:02:00.0/0008:03:00.0"
	pf0  = "sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0/0000:02:00.0/0000:03:00.0"
)

// TestDataDirectNotKnown: without VPD that says it, an HCA is where its PF is.
func TestDataDirectNotKnown(t *testing.T) {
	replace := func(x *tree.Tree, e tree.Entry) {
		must.NoError(t, x.Replace(e))
	}
	for name, c := range map[string]struct {
		change   func(*tree.Tree)
		problems int
		purpose  string // of mlx5_0
	}{
		"DMA function without VPD": {func(x *tree.Tree) { x.Remove(dma9 + "/vpd") }, 0, ""},
		"PF without VPD":           {func(x *tree.Tree) { x.Remove(pf0 + "/vpd") }, 0, ""},
		"two with one UUID": {func(x *tree.Tree) {
			e, _ := x.Lookup(dma9 + "/vpd")
			e.Path = dma8 + "/vpd"
			replace(x, e)
		}, 0, ""},
		"another vendor": {func(x *tree.Tree) {
			replace(x, tree.Entry{Path: dma9 + "/vendor", Data: "0x1234\n"})
		}, 0, ""},
		"DMA function unreadable": {func(x *tree.Tree) {
			replace(x, tree.Entry{Path: dma9 + "/vpd", Kind: tree.Broken, Errno: syscall.EIO})
		}, 1, ""},
		"PF unreadable": {func(x *tree.Tree) {
			replace(x, tree.Entry{Path: pf0 + "/vpd", Kind: tree.Broken, Errno: syscall.EIO})
		}, 1, rdma.PurposeUnknown},
	} {
		snap, err := rdma.Discover(changed(t, "gb300-cx8", c.change).FS(t))
		must.NoError(t, err)
		h := hca(t, snap, "mlx5_0")
		test.True(t, h.DataFunction() == h.PCI && h.Unusable() == nil && h.Purpose == c.purpose &&
			len(snap.Problems) == 0 && len(snap.VPDProblems) == c.problems,
			test.Sprintf("%s: data by %+v, purpose %q, unusable %v, problems %v %v", name, h.DataFunction(),
				h.Purpose, h.Unusable(), snap.Problems, snap.VPDProblems))
		test.NotNil(t, hca(t, snap, "mlx5_7").DataDirect,
			test.Sprintf("%s: another card lost its DMA function", name))
	}
}

// TestDataDirectOfVF: a VF has no VPD of its own, and its data takes the way of its card's.
func TestDataDirectOfVF(t *testing.T) {
	vf := path.Join(path.Dir(pf0), "0000:03:00.2")
	m := changed(t, "gb300-cx8", func(x *tree.Tree) {
		for _, e := range x.Entries() {
			if strings.HasPrefix(e.Path, pf0[:len(pf0)-1]+"1") || strings.Contains(e.Path, "/0000:03:00.1") {
				x.Remove(e.Path) // its place is the VF's now
			}
		}
		for _, e := range []tree.Entry{
			{Path: vf + "/vendor", Data: "0x15b3\n"}, {Path: vf + "/device", Data: "0x101e\n"},
			{Path: vf + "/physfn", Kind: tree.Link, Target: "../0000:03:00.0"},
			{Path: vf + "/infiniband/vf0/node_type", Data: "1: CA\n"},
			{Path: "sys/class/infiniband/vf0", Kind: tree.Link, Target: "../../" + vf[len("sys/"):] + "/infiniband/vf0"},
		} {
			must.NoError(t, x.Replace(e))
		}
	})
	snap, err := rdma.Discover(m.FS(t))
	must.NoError(t, err)
	h := hca(t, snap, "vf0")
	test.True(t, h.Function == rdma.VF && h.DataDirect != nil && h.DataDirect.Address == "0009:03:00.0" &&
		h.Purpose == "", test.Sprintf("VF: %+v", h))
}

// TestSwitchManagers: no container gets a function that manages NVSwitches.
func TestSwitchManagers(t *testing.T) {
	snap := discover(t, "hgx-b200")
	test.True(t, len(snap.HCAs) == 12 && len(snap.Usable()) == 8,
		test.Sprintf("%d HCAs, %d of them usable; want 12 and 8", len(snap.HCAs), len(snap.Usable())))
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		manages := h.PCI.Root == "pci0000:d8"
		err := h.Unusable()
		test.True(t, manages == (err != nil) &&
			(!manages || strings.Contains(err.Error(), "manages NVSwitches")),
			test.Sprintf("%s: unusable %v", h.IBDev, err))
	}
}

// TestVPDOnce: Discover opens the VPD of each candidate once, and that of no other function. Scan and Update open none:
// what they find is unusable until Learn got its VPD, and then they never ask again.
func TestVPDOnce(t *testing.T) {
	for _, machine := range fixture.Names() {
		m, err := fixture.Load(machine)
		must.NoError(t, err)
		c := counted.New(m.FS(t))
		snap, err := rdma.Discover(c)
		must.NoError(t, err)
		var want []string
		for _, e := range m.Tree().Entries() {
			if path.Base(e.Path) == "vpd" {
				want = append(want, path.Base(path.Dir(e.Path)))
			}
		}
		test.SliceEqOp(t, want, opened(c), test.Sprintf("%s: VPD", machine))
		c.Reset()
		checkScanner(t, machine, c, snap, len(want))
	}
}

func checkScanner(t *testing.T, machine string, c *counted.FS, want *rdma.Snapshot, files int) {
	t.Helper()
	s := rdma.NewScanner(c)
	snap, err := s.Scan()
	must.NoError(t, err)
	test.True(t, c.VPD == 0 && len(s.UnreadVPD()) == files,
		test.Sprintf("%s: a scan opens VPD of %v, and leaves %v; want %d left", machine, opened(c), s.UnreadVPD(),
			files))
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		err := h.Unusable()
		test.True(t, h.Purpose != rdma.PurposeUnread || strings.Contains(err.Error(), "is being read"),
			test.Sprintf("%s, %s: unusable %v", machine, h.IBDev, err))
	}
	vpd := rdma.ReadVPD(t.Context(), c, s.UnreadVPD())
	operations := c.Operations()
	snap = s.Learn(vpd)
	test.LessEq(t, 0, c.Operations()-operations, test.Sprintf("%s: Learn asks the host", machine))
	d := rdma.Compare(want, snap)
	test.True(t, d.Empty(), test.Sprintf("%s: Discover and a scanner differ in %v", machine, d.HCAs))
	c.Reset()
	again, err := s.Scan()
	must.NoError(t, err)
	next := rdma.NewScanner(c) // of the next program
	next.Learn(s.VPD())
	_, err = next.Scan()
	must.NoError(t, err)
	test.True(t, again == snap && c.VPD == 0 && len(s.UnreadVPD())+len(next.UnreadVPD()) == 0,
		test.Sprintf("%s: a second scan changes the snapshot, or has VPD to read: %v %v", machine, s.UnreadVPD(),
			next.UnreadVPD()))
}

// opened returns the PCI functions whose VPD was opened, sorted by path.
func opened(c *counted.FS) []string {
	var out []string
	for _, name := range c.Asked {
		if path.Base(name.Path) == "vpd" {
			out = append(out, path.Base(path.Dir(name.Path)))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestOtherCard: another card in a slot is not taken for the one before.
func TestOtherCard(t *testing.T) {
	m, err := fixture.Load("hgx-b200")
	must.NoError(t, err)
	const address = "0000:d9:00.0"
	gone := changed(t, "hgx-b200", func(x *tree.Tree) {
		for _, e := range x.Entries() {
			if strings.Contains(e.Path, address) || e.Path == "sys/class/infiniband/mlx5_8" {
				x.Remove(e.Path)
			}
		}
	})
	for name, look := range map[string]func(*rdma.Scanner) (*rdma.Snapshot, error){
		"scan": (*rdma.Scanner).Scan,
		"event": func(s *rdma.Scanner) (*rdma.Snapshot, error) {
			return s.Update(rdma.Changes{Functions: rdma.NamesOf(address), IBDevs: rdma.NamesOf("mlx5_8")})
		},
	} {
		sys := &switchedFS{ReadLinkFS: m.FS(t)}
		s := rdma.NewScanner(sys)
		if _, err := s.Scan(); err != nil {
			t.Fatal(err)
		}
		s.Learn(rdma.ReadVPD(t.Context(), sys, s.UnreadVPD()))
		sys.ReadLinkFS = gone.FS(t)
		snap, err := look(s)
		must.True(t, err == nil && len(snap.HCAs) == 11,
			must.Sprintf("%s: %d HCAs, error %v", name, len(snap.HCAs), err))
		sys.ReadLinkFS = m.FS(t)
		_, err = look(s)
		test.True(t, err == nil && len(s.UnreadVPD()) == 1,
			test.Sprintf("%s: VPD to read %v, error %v; want that of the new card", name, s.UnreadVPD(), err))
	}
}

// switchedFS is a host whose files are exchanged.
type switchedFS struct{ fs.ReadLinkFS }
