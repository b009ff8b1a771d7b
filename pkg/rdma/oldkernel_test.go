package rdma_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestDiscoverWithoutUevents: vendor, device and driver have files of their own, and every machine
// is the same without the files that have all three.
func TestDiscoverWithoutUevents(t *testing.T) {
	for _, machine := range fixture.Names() {
		root := rdmatest.Root(t, machine)
		whole, err := rdma.Discover(sysfs.DirFS(filepath.Join(root, "sys")))
		must.NoError(t, err)
		removed := 0
		err = filepath.WalkDir(filepath.Join(root, "sys/devices"), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.Name() != "uevent" {
				return err
			}
			removed++
			return os.Remove(path)
		})
		must.True(t, err == nil && (removed != 0 || len(whole.HCAs) == 0),
			must.Sprintf("%s: %d files removed, error %v", machine, removed, err))
		snap, err := rdma.Discover(sysfs.DirFS(filepath.Join(root, "sys")))
		must.NoError(t, err)
		test.Eq(t, whole.HCAs, snap.HCAs, test.Sprintf("%s without uevent files", machine))
	}
}

// TestDiscoverOddVendor: what is no PCI ID is a problem, and no attribute.
func TestDiscoverOddVendor(t *testing.T) {
	root := rdmatest.Root(t, "roce-lag")
	function, err := filepath.EvalSymlinks(filepath.Join(root, "sys/bus/pci/devices/0000:3b:00.0"))
	must.NoError(t, err)
	err = errors.Join(os.Remove(filepath.Join(function, "uevent")),
		os.WriteFile(filepath.Join(function, "vendor"), []byte("0x15\n"), 0o644))
	must.NoError(t, err)
	snap, err := rdma.Discover(sysfs.DirFS(filepath.Join(root, "sys")))
	must.True(t, err == nil && len(snap.Problems) == 1 &&
		strings.Contains(snap.Problems[0].Message, `parse PCI ID "0x15"`),
		must.Sprintf("problems %v, error %v", snap.Problems, err))
	if f := snap.HCAs[0].PCI; f.Vendor != "" || f.Device == "" || snap.HCAs[0].Driver != "mlx5_core" {
		t.Errorf("vendor %q, device %q, driver %q", f.Vendor, f.Device, snap.HCAs[0].Driver)
	}
}

// TestLegacyRepresentorInterfaces: a number as phys_port_name is the representor of that VF where the
// interface is a port of a switch, and nothing where it is not. The uplink had no name then.
func TestLegacyRepresentorInterfaces(t *testing.T) {
	for _, c := range []struct {
		what                   string
		uplink, uplinkSwitch   string
		names                  string // of the others, in order of interfaces
		otherSwitch            string
		wantNetdev, wantMarked string
	}{
		{"Linux 5.2 and newer", "p0", "id", "pf0vf0 pf0vf1", "id", "uplink", "2 3"},
		{"Linux 5.1 and older", "", "id", "0 1", "id", "uplink", "2 3"},
		{"the uplink by its vport", "65534", "id", "0 1", "id", "uplink", "2 3"},
		{"two ports without a switch", "0", "", "1 2", "", "uplink", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			m := newSwitchHost()
			m.hca("mlx5_0", 3)
			// Its name comes after those of the others.
			m.netdev("uplink", c.uplink, c.uplinkSwitch)
			for i, name := range strings.Fields(c.names) {
				m.netdev(fmt.Sprintf("rep%d", i), name, c.otherSwitch)
			}
			snap := m.discover(t)
			var marked []string
			for _, p := range snap.HCAs[0].Ports {
				if p.Representor {
					marked = append(marked, fmt.Sprint(p.Number))
				}
			}
			test.Eq(t, c.wantMarked, strings.Join(marked, " "), test.Sprint("representors are the ports"))
			p := snap.HCAs[0].Port1()
			test.True(t, p != nil && (c.wantMarked == "" || p.Netdev == c.wantNetdev),
				test.Sprintf("first port of its own: %+v; want the interface %s", p, c.wantNetdev))
		})
	}
}

// TestLegacyRepresentorHCAs: up to Linux 5.2 mlx5 made an HCA for each port of the switch, on the PF, and
// sysfs does not tell that of the uplink from the others. None of them is offered. VFs are, and so
// are several HCAs on a function that is no switch, or that have GIDs.
func TestLegacyRepresentorHCAs(t *testing.T) {
	for _, c := range []struct {
		what     string
		switchID string
		gids     []string
		ibdevs   []string
		usable   string
	}{
		{"a switch", "id", nil, []string{"mlx5_0", "mlx5_2", "mlx5_3"}, ""},
		{"a switch with one HCA", "id", nil, []string{"mlx5_0"}, "mlx5_0"},
		{"no switch", "", nil, []string{"mlx5_0", "mlx5_2"}, "mlx5_0 mlx5_2"},
		{"an uplink with RoCE", "id", []string{"mlx5_0"}, []string{"mlx5_0", "mlx5_2", "mlx5_3"}, "mlx5_0"},
	} {
		t.Run(c.what, func(t *testing.T) {
			m := newSwitchHost()
			for _, ibdev := range c.ibdevs {
				m.hca(ibdev, 1)
				if slices.Contains(c.gids, ibdev) {
					m.file("infiniband/"+ibdev+"/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001")
				}
			}
			m.netdev("uplink", "", c.switchID)
			var usable []string
			for _, h := range m.discover(t).Usable() {
				usable = append(usable, h.IBDev)
			}
			test.Eq(t, c.usable, strings.Join(usable, " "), test.Sprint("usable"))
		})
	}
}

// TestLegacyRepresentorsComeAndGo: what an Update says of the others follows the HCAs of the switch.
func TestLegacyRepresentorsComeAndGo(t *testing.T) {
	m := newSwitchHost()
	m.hca("mlx5_0", 1)
	m.hca("mlx5_2", 1)
	m.netdev("uplink", "", "id")
	root := rdmatest.TempDir(t)
	must.NoError(t, m.machine(t).Extract(root))
	sys := sysfs.DirFS(filepath.Join(root, "sys"))
	scanner := rdma.NewScanner(sys)
	link, aside := filepath.Join(root, "sys/class/infiniband/mlx5_2"), filepath.Join(root, "aside")
	for _, step := range []struct {
		do     func() error
		usable int
	}{
		{func() error { return nil }, 0},
		{func() error { return os.Rename(link, aside) }, 1},
		{func() error { return os.Rename(aside, link) }, 0},
	} {
		before, _ := scanner.Update(rdma.Changes{})
		wasUsable := len(before.Usable())
		must.NoError(t, step.do())
		snap, err := scanner.Update(rdma.Changes{IBDevs: rdma.NamesOf("mlx5_2")})
		must.NoError(t, err)
		whole, err := rdma.Discover(sys)
		diff := cmp.Diff(string(encode(t, whole)), string(encode(t, snap)))
		test.True(t, err == nil && diff == "",
			test.Sprintf("error %v; Update differs from Discover:\n%s", err, diff))
		test.True(t, len(snap.Usable()) == step.usable && len(before.Usable()) == wasUsable,
			test.Sprintf("%d usable, want %d; the snapshot before has %d, had %d", len(snap.Usable()),
				step.usable, len(before.Usable()), wasUsable))
	}
}

// switchHost is a host with one PF.
type switchHost struct{ text strings.Builder }

const switchPF = "devices/pci0000:00/0000:00:03.1/0000:08:00.0/"

func newSwitchHost() *switchHost {
	m := &switchHost{}
	m.file("uevent", "DRIVER=mlx5_core\nPCI_ID=15B3:1019")
	return m
}

// file makes a file of the PF.
func (m *switchHost) file(name, content string) {
	fmt.Fprintf(&m.text, "-- sys/%s%s --\n%s\n", switchPF, name, content)
}

func (m *switchHost) member(class, name string) {
	fmt.Fprintf(&m.text, "-- sys/class/%s/%s -> ../../%s%s/%s --\n", class, name, switchPF, class, name)
}

// hca makes an HCA that sends raw Ethernet only.
func (m *switchHost) hca(ibdev string, ports int) {
	uverbs := "uverbs" + strings.TrimPrefix(ibdev, "mlx5_")
	m.member("infiniband", ibdev)
	m.member("infiniband_verbs", uverbs)
	m.file("infiniband_verbs/"+uverbs+"/ibdev", ibdev)
	m.file("infiniband_verbs/"+uverbs+"/dev", "231:"+strings.TrimPrefix(ibdev, "mlx5_"))
	m.file("infiniband/"+ibdev+"/node_type", "1: CA")
	for port := range ports {
		m.file(fmt.Sprintf("infiniband/%s/ports/%d/link_layer", ibdev, port+1), "Ethernet")
	}
}

func (m *switchHost) netdev(name, portName, switchID string) {
	m.member("net", name)
	m.file("net/"+name+"/dev_port", "0")
	for file, content := range map[string]string{"phys_port_name": portName, "phys_switch_id": switchID} {
		if content != "" {
			m.file("net/"+name+"/"+file, content)
		}
	}
}

func (m *switchHost) machine(t *testing.T) *fixture.Machine {
	t.Helper()
	machine, err := fixture.Parse("switch", []byte("Made for one test.\n\n"+m.text.String()))
	must.NoError(t, err)
	return machine
}

func (m *switchHost) discover(t *testing.T) *rdma.Snapshot {
	t.Helper()
	return rdmatest.Discover(t, m.machine(t))
}
