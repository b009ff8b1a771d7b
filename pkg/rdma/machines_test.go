package rdma_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The golden files pin every value. The tests here say which of them matter and
// why, one for each thing that has gone wrong in some program before.

// TestProtocol: the transport, from the driver, the node type and the link layer.
func TestProtocol(t *testing.T) {
	for _, c := range []struct {
		machine, ibdev string
		want           rdma.Protocol
	}{
		{"dgx-h100-ib", "mlx5_0", rdma.ProtocolIB},
		{"dgx-h100-ib", "mlx5_1", rdma.ProtocolRoCE},
		{"mlx4-dual-port", "mlx4_0", rdma.ProtocolIB}, // by the first port
		{"roce-lag", "mlx5_bond_0", rdma.ProtocolRoCE},
		{"irdma-e810", "rocep24s0f0", rdma.ProtocolRoCE},
		{"irdma-e810", "iwp24s0f1", rdma.ProtocolIWARP},
		{"alibaba-erdma", "erdma_0", rdma.ProtocolIWARP},
		{"aws-p5", "rdmap79s0", rdma.ProtocolEFA},
		{"azure-mana", "mana_0", rdma.ProtocolRoCE},
		{"omnipath-hfi1", "hfi1_0", rdma.ProtocolOPA}, // its link layer says InfiniBand
		{"soft", "rxe0", rdma.ProtocolRoCE},
		{"soft-pci", "siw0", rdma.ProtocolIWARP},
		{"switchdev", "rdmap8s0f0", rdma.ProtocolUnknown}, // raw Ethernet: no GIDs, so no RoCE
		{"switchdev", "rocep8s0f0v0", rdma.ProtocolRoCE},
		{"roce-sriov", "mlx5_9", rdma.ProtocolRoCE}, // no MAC yet: its GIDs are empty, but there
		{"misbehaving", "mlx5_7", rdma.ProtocolUnknown},
	} {
		test.Eq(t, c.want, hca(t, discover(t, c.machine), c.ibdev).Protocol,
			test.Sprintf("%s %s: protocol", c.machine, c.ibdev))
	}
}

// TestSlot: what an HCA is and sits on.
func TestSlot(t *testing.T) {
	for _, c := range []struct{ machine, ibdev, want string }{
		{"roce-sriov", "mlx5_0", "pci-0000-3b-00-0 pf of  index - driver mlx5_core numa 0 root pci0000:3a switch "},
		{"roce-sriov", "mlx5_9", "pci-0000-3b-01-1 vf of 0000:3b:00.0 index 7 driver mlx5_core numa 0 root pci0000:3a switch "},
		{"roce-sriov", "mlx5_1", "pci-0000-3b-00-1 pf of  index - driver mlx5_core numa 0 root pci0000:3a switch "},
		{"mlx5-sf", "mlx5_1", "pci-0000-c1-00-0-sf-88 sf of 0000:c1:00.0 index - driver mlx5_core.sf numa 1 root pci0000:c0 switch "},
		{"irdma-e810", "iwp24s0f1", "pci-0000-18-00-1 pf of  index - driver ice numa 0 root pci0000:17 switch "},
		{"azure-mana", "mana_0", "pci-7870-00-00-0 pf of  index - driver mana numa - root pci7870:00 switch "},
		{"azure-ndv5-ib", "mlx5_an0", "pci-b266-00-02-0 pf of  index - driver mlx5_core numa - root pcib266:00 switch "},
		{"hgx-h100", "mlx5_0", "pci-0000-19-00-0 pf of  index - driver mlx5_core numa 0 root pci0000:15 switch 0000:16:00.0"},
		{"hgx-h100", "mlx5_4", "pci-0000-52-00-0 pf of  index - driver mlx5_core numa 0 root pci0000:51 switch "},
		{"aws-p5", "rdmap79s0", "pci-0000-4f-00-0 pf of  index - driver efa numa 0 root pci0000:44 switch 0000:45:00.0"},
		{"soft", "rxe0", "soft-rxe-eth0 virtual of  index - driver rxe"},
		{"soft-pci", "siw0", "soft-siw-dummy0 virtual of  index - driver siw"},
		// Below a PCI function, and still no hardware: named by its interface.
		{"soft-pci", "rxe0", "soft-rxe-eth1 virtual of  index - driver rxe numa 1 root pci0000:80 switch "},
	} {
		test.Eq(t, c.want, slot(hca(t, discover(t, c.machine), c.ibdev)), test.Sprintf("%s %s", c.machine, c.ibdev))
	}
}

func slot(h *rdma.HCA) string {
	number := func(n *int) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	s := fmt.Sprintf("%s %s of %s index %s driver %s", h.Name, h.Function, h.PF, number(h.VFIndex), h.Driver)
	if h.PCI != nil {
		s += fmt.Sprintf(" numa %s root %s switch %s", number(h.PCI.NUMANode), h.PCI.Root, h.PCI.Switch())
	}
	return s
}

// TestNetdev: the interface of every port.
func TestNetdev(t *testing.T) {
	for _, c := range []struct{ machine, ibdev, want string }{
		{"roce-lag", "mlx5_bond_0", "bond0"},
		{"mlx4-dual-port", "mlx4_0", "ib0 ens6d1"}, // told apart by dev_port
		{"aws-p5", "rdmap79s0", "-"},
		{"alibaba-erdma", "erdma_0", "eth1"}, // another PCI function, found by its address
		{"azure-mana", "mana_0", "enP30832s1"},
		{"many-uverbs", "mlx5_1", "-"}, // an InfiniBand VF without IPoIB
		{"mlx5-sf", "mlx5_1", "enp193s0f0s88"},
		{"roce-sriov", "mlx5_9", "ens1f0v7"}, // its GID table is empty
		{"soft", "rxe3", "veth0"},
		{"soft-pci", "rxe2", "eth0"}, // a virtio device below the PCI function
		{"soft-pci", "siw0", "dummy0"},
		{"switchdev", "rdmap8s0f0", "enp8s0f0np0 - - - -"},
	} {
		test.Eq(t, c.want, netdevs(hca(t, discover(t, c.machine), c.ibdev)),
			test.Sprintf("%s %s: netdevs", c.machine, c.ibdev))
	}
}

func netdevs(h *rdma.HCA) string {
	var names []string
	for _, p := range h.Ports {
		if p.Netdev == "" {
			p.Netdev = "-"
		}
		names = append(names, p.Netdev)
	}
	return strings.Join(names, " ")
}

const (
	hgxLink = "-- sys/class/net/enp25s0np0 -> ../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0/net/enp25s0np0 --\n"
	hgxGID0 = "mlx5_0/ports/1/gid_attrs/ndevs/0 --\nenp25s0np0\n"
)

// TestNetdevElsewhere: a GID names its interface without the network namespace.
// One that went into a pod is no interface of this host, also when the host has
// another one of that name.
func TestNetdevElsewhere(t *testing.T) {
	for _, name := range []string{"net1", "enp41s0np0"} {
		snap := variant(t, "hgx-h100", hgxLink, "", hgxGID0, strings.Replace(hgxGID0, "enp25s0np0", name, 1))
		test.Eq(t, "-", netdevs(hca(t, snap, "mlx5_0")), test.Sprintf("the interface went away as %s: netdev", name))
	}
}

// TestNetdevTwins: an interface on top of another one has its address as well.
func TestNetdevTwins(t *testing.T) {
	const link = "-- sys/class/net/lo -> ../../devices/virtual/net/lo --\n"
	for _, twin := range []string{"aaa", "zzz"} {
		snap := variant(t, "alibaba-erdma", link, link+
			"-- sys/class/net/"+twin+" -> ../../devices/virtual/net/"+twin+" --\n"+
			"-- sys/devices/virtual/net/"+twin+"/address --\n00:16:3e:2f:5a:11\n")
		test.Eq(t, "eth1", netdevs(hca(t, snap, "erdma_0")), test.Sprintf("with a VLAN called %s: netdev", twin))
	}
}

// TestRepresentors: in switchdev mode an HCA has a port for each function behind
// its embedded switch. They are not its own.
func TestRepresentors(t *testing.T) {
	for machine, want := range map[string]string{"switchdev": "1 own, 4 representors",
		"mlx5-sf": "1 own, 2 representors"} {
		h := &discover(t, machine).HCAs[0]
		own, representors := 0, 0
		for _, p := range h.Ports {
			if p.Representor {
				representors++
			} else {
				own++
			}
		}
		test.Eq(t, want, fmt.Sprintf("%d own, %d representors", own, representors),
			test.Sprintf("%s %s: ports", machine, h.IBDev))
		p := h.Port1()
		test.True(t, p != nil && p.Number == 1 && p.State == rdma.PortActive,
			test.Sprintf("%s %s: first port %+v; want port 1, active", machine, h.IBDev, p))
	}
}

// TestSharedSlot: a management sub-device has a name of its own and does not
// rename its neighbour; two usable devices of one slot both get longer names.
func TestSharedSlot(t *testing.T) {
	snap := discover(t, "smi-multiplane")
	got := map[string]string{}
	for _, h := range snap.HCAs {
		got[h.IBDev] = h.Name
	}
	want := map[string]string{"ibp8s0f0": "pci-0000-08-00-0", "ibp8s0f1": "pci-0000-08-00-1",
		"smi1": "pci-0000-08-00-1-at-smi1"}
	test.Eq(t, want, got, test.Sprint("smi-multiplane"))
	test.ErrorContains(t, hca(t, snap, "smi1").Unusable(), "smi1 has no uverbs node",
		test.Sprint("smi1 is unusable because"))
	test.Eq(t, 8, len(hca(t, snap, "smi1").MADs),
		test.Sprintf("smi1 has MAD nodes %v; want a umad and an issm for each of four planes", hca(t, snap, "smi1").MADs))
	for guid, want := range map[string]string{
		"a088:c203:0057:7001": "pci-0000-08-00-1-at-smi1",             // the neighbour has it too
		"a088:c203:0057:7002": "pci-0000-08-00-1-at-a088c20300577002", // its own
		"0000:0000:0000:0000": "pci-0000-08-00-1-at-smi1",             // none
	} {
		snap := variant(t, "smi-multiplane", "infiniband/smi1/node_guid --\na088:c203:0057:7001",
			"infiniband/smi1/node_guid --\n"+guid)
		test.Eq(t, want, hca(t, snap, "smi1").Name, test.Sprintf("smi1 with node GUID %s is called", guid))
	}
}

// TestNodes: every character device, with the port and number the kernel gave it.
func TestNodes(t *testing.T) {
	for _, c := range []struct{ machine, ibdev, want string }{
		{"mlx4-dual-port", "mlx4_0",
			"uverbs0 231:192, umad0 231:0 port 1, issm0 231:64 port 1, umad1 231:1 port 2, issm1 231:65 port 2"},
		{"many-uverbs", "mlx5_31", "uverbs31 231:223, umad31 231:31 port 1, issm31 231:95 port 1"},
		{"many-uverbs", "mlx5_32", "uverbs32 235:0, umad32 231:32 port 1, issm32 231:96 port 1"}, // a dynamic major
		{"aws-p5", "rdmap201s0", "uverbs31 231:223"},
		{"soft-pci", "siw0", "uverbs2 231:194"},
		{"soft-pci", "rxe2", "uverbs3 231:195, umad2 231:2 port 1"}, // numbers of their own
		{"misbehaving", "mlx5_3", "umad3 231:3 port 1, issm3 231:67 port 1"},
	} {
		h := hca(t, discover(t, c.machine), c.ibdev)
		var got []string
		if h.Uverbs != nil {
			got = append(got, fmt.Sprintf("%s %d:%d", h.Uverbs.Name, h.Uverbs.Major, h.Uverbs.Minor))
		}
		for _, n := range h.MADs {
			got = append(got, fmt.Sprintf("%s %d:%d port %d", n.Name, n.Major, n.Minor, n.Port))
		}
		test.Eq(t, c.want, strings.Join(got, ", "), test.Sprintf("%s %s", c.machine, c.ibdev))
	}
	for machine, want := range map[string]string{"none": "-", "aws-p5": "-",
		"empty-classes": "/dev/infiniband/rdma_cm 10:260", "mlx4-dual-port": "/dev/infiniband/rdma_cm 10:57"} {
		got := "-"
		if cm := discover(t, machine).RDMACM; cm != nil {
			got = fmt.Sprintf("%s %d:%d", cm.Path(), cm.Major, cm.Minor)
		}
		test.Eq(t, want, got, test.Sprintf("%s: connection manager", machine))
	}
}

// TestNetnsMode: shared, exclusive, or not said.
func TestNetnsMode(t *testing.T) {
	for machine, want := range map[string]rdma.NetnsMode{"soft": rdma.NetnsShared, "soft-pci": rdma.NetnsExclusive,
		"none": rdma.NetnsUnknown} {
		test.Eq(t, want, discover(t, machine).NetnsMode, test.Sprintf("%s: mode", machine))
	}
}

// TestFamily: a PF and its VFs and SFs are one card and stand together.
func TestFamily(t *testing.T) {
	for _, machine := range []string{"roce-sriov", "many-uverbs", "mlx5-sf", "switchdev", "soft"} {
		seen, last := map[string]bool{}, ""
		for _, h := range discover(t, machine).HCAs {
			f := h.Family()
			test.True(t, f == last || !seen[f],
				test.Sprintf("%s: family %s is torn apart at %s", machine, f, h.IBDev))
			if f != last && h.Function != rdma.PF && h.Function != rdma.Virtual {
				t.Errorf("%s: family %s starts with %s, a %s", machine, f, h.IBDev, h.Function)
			}
			seen[f], last = true, f
		}
	}
}
