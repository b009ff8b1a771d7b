package rdma_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/sysfs"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/counted"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestUpdateCases: changes that concern another HCA than the one that was named, or
// that come in several steps. want is which HCAs differ, by name.
func TestUpdateCases(t *testing.T) {
	const (
		sriov   = "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
		erdmaIf = "devices/virtual/net/late"
	)
	for _, c := range []struct {
		name, machine string
		change        func(m *mutableHost) rdma.Changes
		want          []string
	}{
		{"the PF renumbers its VFs", "roce-sriov", func(m *mutableHost) rdma.Changes {
			m.swap(sriov+"/virtfn0", sriov+"/virtfn1")
			return rdma.Changes{Functions: rdma.NamesOf("0000:3b:00.0")}
		}, []string{"pci-0000-3b-00-2", "pci-0000-3b-00-3"}},
		{"a VF is renumbered", "roce-sriov", func(m *mutableHost) rdma.Changes {
			m.swap(sriov+"/virtfn0", sriov+"/virtfn1")
			return rdma.Changes{Functions: rdma.NamesOf("0000:3b:00.2")}
		}, []string{"pci-0000-3b-00-2", "pci-0000-3b-00-3"}},
		{"an HCA shares its slot no more", "smi-multiplane", func(m *mutableHost) rdma.Changes {
			m.write("class/infiniband_verbs/uverbs1/ibdev", "smi1")
			return rdma.Changes{Nodes: rdma.NamesOf("uverbs1")}
		}, []string{"pci-0000-08-00-1", "pci-0000-08-00-1-at-ibp8s0f1", "pci-0000-08-00-1-at-smi1"}},
		{"a neighbour goes", "smi-multiplane", func(m *mutableHost) rdma.Changes {
			m.must(os.Remove(m.path("class/infiniband/ibp8s0f1")))
			return rdma.Changes{IBDevs: rdma.NamesOf("ibp8s0f1")}
		}, []string{"pci-0000-08-00-1", "pci-0000-08-00-1-at-smi1"}},
		{"an interface goes into a container", "roce-sriov", func(m *mutableHost) rdma.Changes {
			m.must(os.Remove(m.path("class/net/ens1f0v3")))
			return rdma.Changes{Netdevs: rdma.NamesOf("ens1f0v3")}
		}, []string{"pci-0000-3b-00-5"}},
		{"an interface comes back", "roce-sriov", func(m *mutableHost) rdma.Changes {
			m.must(os.Remove(m.path("class/net/ens1f0v3")))
			m.update(rdma.Changes{Netdevs: rdma.NamesOf("ens1f0v3")})
			m.must(os.Symlink("../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.5/net/ens1f0v3", m.path("class/net/ens1f0v3")))
			return rdma.Changes{Netdevs: rdma.NamesOf("ens1f0v3")}
		}, []string{"pci-0000-3b-00-5"}},
		{"the interface of the node GUID goes", "alibaba-erdma", func(m *mutableHost) rdma.Changes {
			m.must(os.Remove(m.path("class/net/eth1")))
			return rdma.Changes{Netdevs: rdma.NamesOf("eth1")}
		}, []string{m1(t, "alibaba-erdma", "erdma_0")}},
		{"an interface gets the address of the node GUID", "alibaba-erdma", func(m *mutableHost) rdma.Changes {
			eth1 := m.real("class/net/eth1")
			m.write(eth1+"/address", "02:00:00:00:00:01")
			m.update(rdma.Changes{Netdevs: rdma.NamesOf("eth1")})
			m.write(erdmaIf+"/address", "00:16:3e:2f:5a:11")
			m.must(os.Symlink("../../"+erdmaIf, m.path("class/net/late")))
			return rdma.Changes{Netdevs: rdma.NamesOf("late")}
		}, []string{m1(t, "alibaba-erdma", "erdma_0")}},
		{"a bond that nobody announced", "roce-sriov", func(m *mutableHost) rdma.Changes {
			m.write("devices/virtual/net/bond7/operstate", "up")
			m.must(os.Symlink("../../devices/virtual/net/bond7", m.path("class/net/bond7")))
			m.write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "bond7")
			return rdma.Changes{IBDevs: rdma.NamesOf("mlx5_0")}
		}, []string{"pci-0000-3b-00-0"}},
		{"a host's interface that went unannounced, and a container's of its name", "roce-lag",
			func(m *mutableHost) rdma.Changes {
				m.must(os.Remove(m.path("class/net/bond0")))
				return rdma.Changes{IBDevs: rdma.NamesOf("mlx5_bond_0")}
			}, []string{"pci-0000-3b-00-0"}},
		{"a member of a bond loses its link", "roce-lag", func(m *mutableHost) rdma.Changes {
			m.write("class/net/ens1f1np1/speed", "-1")
			m.write("class/net/bond0/speed", "100000")
			return rdma.Changes{Netdevs: rdma.NamesOf("bond0", "ens1f1np1")}
		}, []string{"pci-0000-3b-00-0"}},
		{"the other function of a LAG gets an HCA", "roce-lag", (*mutableHost).addHCA,
			[]string{"pci-0000-3b-00-0", "pci-0000-3b-00-1"}},
		{"the other function of a bond loses its HCA", "roce-lag", func(m *mutableHost) rdma.Changes {
			named := m.addHCA()
			m.update(named)
			m.must(os.RemoveAll(m.path("class/net/ens1f1np1/device/infiniband")))
			m.must(os.Remove(m.path("class/infiniband/" + named.IBDevs.Sorted()[0])))
			return named
		}, []string{"pci-0000-3b-00-0", "pci-0000-3b-00-1"}},
		{"nodes follow a rename", "roce-sriov", func(m *mutableHost) rdma.Changes {
			m.move("class/infiniband", "mlx5_3", "rocep59s0v1")
			for _, node := range []string{"infiniband_verbs/uverbs3", "infiniband_mad/umad3", "infiniband_mad/issm3"} {
				m.write("class/"+node+"/ibdev", "rocep59s0v1")
			}
			return rdma.Changes{IBDevs: rdma.NamesOf("mlx5_3", "rocep59s0v1")}
		}, []string{"pci-0000-3b-00-3"}},
		{"a node of a name that no HCA can have", "roce-sriov", func(m *mutableHost) rdma.Changes {
			m.write("class/infiniband_verbs/uverbs3/ibdev", "mlx5_3/ports")
			m.write("class/infiniband_verbs/uverbs4/ibdev", ".")
			return rdma.Changes{Nodes: rdma.NamesOf("uverbs3", "uverbs4")}
		}, []string{"pci-0000-3b-00-3", "pci-0000-3b-00-4"}},
		{"nothing", "roce-sriov", func(*mutableHost) rdma.Changes {
			return rdma.Changes{IBDevs: rdma.NamesOf("mlx5_3"), Netdevs: rdma.NamesOf("ens1f0v3"), Host: true}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := openMutable(t, c.machine)
			before := m.update(rdma.Changes{All: true})
			changes := c.change(m)
			first := m.last
			after := m.update(changes)
			whole, err := rdma.Discover(m.sys)
			must.NoError(t, err)
			test.Eq(t, string(encode(t, whole)), string(encode(t, after)),
				test.Sprint("Update differs from Discover"))
			test.Eq(t, c.want, rdma.Compare(first, after).HCAs, test.Sprint("HCAs that differ"))
			test.True(t, len(c.want) != 0 || after == before,
				test.Sprint("another snapshot, though nothing changed"))
		})
	}
}

// m1 is the name of an HCA of a machine.
func m1(t *testing.T, machine, ibdev string) string { return hca(t, discover(t, machine), ibdev).Name }

func openMutable(t *testing.T, machine string) *mutableHost {
	dir := filepath.Join(extract(t, machine), "sys")
	sys := sysfs.DirFS(dir)
	return &mutableHost{t: t, dir: dir, sys: sys, scanner: rdma.NewScanner(sys)}
}

// update brings the host's scanner up to date.
func (m *mutableHost) update(c rdma.Changes) *rdma.Snapshot {
	m.t.Helper()
	snap, err := m.scanner.Update(c)
	m.must(err)
	m.last = snap
	return snap
}

// swap exchanges two entries of a directory.
func (m *mutableHost) swap(a, b string) {
	m.must(os.Rename(m.path(a), m.path(a+".swap")))
	m.must(os.Rename(m.path(b), m.path(a)))
	m.must(os.Rename(m.path(a+".swap"), m.path(b)))
}

// TestPoll: a look at the ports finds what no event says, and reads little.
func TestPoll(t *testing.T) {
	m := openMutable(t, "dgx-h100-ib")
	c := counted.New(m.sys)
	m.scanner = rdma.NewScanner(c)
	if changes := m.scanner.Poll(); !changes.Empty() {
		t.Errorf("before the first scan: %s", changes)
	}
	snap := m.update(rdma.Changes{})
	c.Reset()
	if changes := m.scanner.Poll(); !changes.Empty() {
		t.Errorf("nothing changed, and the poll says %s", changes)
	}
	ports := 0
	for _, h := range snap.HCAs {
		for _, p := range h.Ports {
			ports++
			if p.State != rdma.PortActive {
				ports++
			}
		}
	}
	test.Eq(t, ports+2, c.Operations(), test.Sprint("operations"))
	m.write("class/infiniband/mlx5_4/ports/1/state", "1: DOWN")
	m.write("class/infiniband/mlx5_4/ports/1/phys_state", "3: Disabled")
	changes := m.scanner.Poll()
	test.Eq(t, "HCAs mlx5_4", changes.String(), test.Sprint("a port went down: the poll"))
	m.update(changes)
	m.write("class/infiniband/mlx5_4/ports/1/phys_state", "2: Polling")
	m.write("module/ib_core/parameters/netns_mode", "N")
	changes = m.scanner.Poll()
	test.Eq(t, "host, HCAs mlx5_4", changes.String(), test.Sprint("another reason, another mode: the poll"))
	if snap := m.update(changes); snap.NetnsMode != rdma.NetnsExclusive ||
		hca(t, snap, "mlx5_4").Ports[0].PhysState != "Polling" {
		t.Errorf("after the poll: mode %q, port %+v", snap.NetnsMode, hca(t, snap, "mlx5_4").Ports[0])
	}
	if changes := m.scanner.Poll(); !changes.Empty() {
		t.Errorf("nothing changed since, and the poll says %s", changes)
	}
}

// TestPollOfVFs: active VFs are read when something is wrong with their PF, and until they are active again.
func TestPollOfVFs(t *testing.T) {
	m := openMutable(t, "roce-sriov")
	hcas := m.update(rdma.Changes{All: true}).HCAs
	of := hcas[slices.IndexFunc(hcas, func(h rdma.HCA) bool {
		return h.Function == rdma.VF && h.Ports[0].State == rdma.PortActive
	})]
	vf := of.IBDev
	pf := hcas[slices.IndexFunc(hcas, func(h rdma.HCA) bool { return h.PCI != nil && h.PCI.Address == of.PF })].IBDev
	set := func(ibdev, state string) { m.write("class/infiniband/"+ibdev+"/ports/1/state", state) }
	poll := func(step, want string) {
		t.Helper()
		changes := m.scanner.Poll()
		test.Eq(t, want, changes.String(), test.Sprintf("%s: the poll", step))
		m.update(changes)
	}
	nothing := new(rdma.Changes).String()
	set(vf, "1: DOWN")
	poll("a VF alone, which the next rescan finds", nothing)
	set(pf, "1: DOWN")
	poll("the PF too", fmt.Sprintf("HCAs %s %s", pf, vf))
	set(pf, "4: ACTIVE")
	poll("the PF is up again", "HCAs "+pf)
	set(vf, "4: ACTIVE")
	poll("the VF follows", "HCAs "+vf)
}

// TestPollOfLAG: what a bond carries changes without an event of the bond.
func TestPollOfLAG(t *testing.T) {
	m := openMutable(t, "roce-lag")
	m.update(rdma.Changes{All: true})
	for _, step := range []struct{ name, file, content, want string }{
		{"nothing", "speed", "200000", "nothing"},
		{"LACP leaves a member out", "speed", "100000", "HCAs mlx5_bond_0"},
		{"nothing more", "speed", "100000", "nothing"},
		{"a member leaves", "bonding/slaves", "ens1f0np0", "HCAs mlx5_bond_0"},
		{"it comes back", "bonding/slaves", "ens1f0np0 ens1f1np1", "HCAs mlx5_bond_0"},
	} {
		m.write("class/net/bond0/"+step.file, step.content)
		changes := m.scanner.Poll()
		test.Eq(t, step.want, changes.String(), test.Sprintf("%s: the poll", step.name))
		m.update(changes)
	}
}
