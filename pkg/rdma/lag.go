package rdma

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// LAG describes a port whose interface is a bond of several functions of one card. The HCA sends by all of them. It is
// zero for other ports.
type LAG struct {
	// ConfiguredMbps is the number of members times the rate of the fastest, or PCIeMbps. With active-backup it is the
	// rate of the bond. It is 0 while no member has a link.
	ConfiguredMbps int `json:"configuredMbps,omitempty"`
	// PCIeMbps is what the PCIe link carries. It is 0 if the members carry no more than that.
	PCIeMbps int `json:"pcieMbps,omitempty"`
	// Slow has the names of members without a link, or slower than the fastest, separated by ", ". It is empty with
	// active-backup.
	Slow string `json:"slow,omitempty"`
}

// driverOfLAG is the driver that makes one HCA of the functions in a bond. With others, an HCA sends by its own
// function alone, also if the other function has no HCA.
const driverOfLAG = "mlx5_core"

// maxBondMembers bounds the members of a bond.
const maxBondMembers = 16

// BondMembers returns the interfaces of a bond, at most 16 (Documentation/networking/bonding.rst). Another interface
// has none.
func BondMembers(sys fs.FS, bond string) []string {
	names := strings.Fields(attribute(sys, path.Join(classNet, bond, "bonding/slaves")))
	return names[:min(len(names), maxBondMembers)]
}

// ConfiguredMbps returns the rate of an ACTIVE port, 0 if it is unknown. On a LAG, it is that of all members.
func (p *Port) ConfiguredMbps() int {
	switch {
	case p.State != PortActive:
		return 0
	case p.LAG.ConfiguredMbps != 0:
		return p.LAG.ConfiguredMbps
	}
	return p.RateMbps
}

// readLAG reads the rate of a port from its bond and the members of the bond. The kernel's rate of the port is that of
// the first function, and 40 Gb/s while that one has no link (drivers/infiniband/hw/mlx5/main.c, mlx5_query_port_roce).
// The rate now is that of the bond, as ibv_query_port_speed says since Linux 7.0 (mlx5_lag_query_bond_speed). readLAG
// returns the members of the bond, also if they are no LAG: a change of them can make it one.
func (t *netdevTable) readLAG(p *Port, driver, function string) (members []string) {
	if driver != driverOfLAG {
		return nil
	}
	if n := t.named(p.Netdev); n == nil || n.device != "" {
		return nil // not a bond: one file less to read for each port
	}
	members = BondMembers(t.sys, p.Netdev)
	if len(members) < 2 || !t.sendsBy(members, function) {
		return members
	}
	bond := path.Join(classNet, p.Netdev)
	p.RateMbps = linkSpeed(t.sys, bond)
	if strings.HasPrefix(attribute(t.sys, bond+"/bonding/mode"), "active-backup ") {
		p.LAG.ConfiguredMbps = p.RateMbps // one member carries all traffic
		return members
	}
	rates, fastest := make([]int, len(members)), 0
	for i, member := range members {
		rates[i] = linkSpeed(t.sys, path.Join(classNet, member))
		fastest = max(fastest, rates[i])
	}
	var slow []string
	for i, member := range members {
		if rates[i] < fastest {
			slow = append(slow, member)
		}
	}
	p.LAG.ConfiguredMbps, p.LAG.Slow = fastest*len(members), strings.Join(slow, ", ")
	if pcie := pcieMbps(t.sys, PlaceOf(function).dir); pcie > 0 && pcie < p.LAG.ConfiguredMbps {
		p.LAG.ConfiguredMbps, p.LAG.PCIeMbps = pcie, pcie
	}
	return members
}

// sendsBy reports whether the HCA of a function sends by all these interfaces: they are of that function, and of others
// of its card that have no HCA. Functions in a bond that have an HCA each are no LAG.
func (t *netdevTable) sendsBy(members []string, function string) bool {
	own, slot := false, PlaceOf(function).slot()
	for _, member := range members {
		n := t.named(member)
		if n == nil || n.device == "" || PlaceOf(n.device).slot() != slot {
			return false
		}
		if n.device == function {
			own = true
			continue
		}
		if _, err := fs.Stat(t.sys, n.device+"/infiniband"); err == nil {
			return false
		}
	}
	return own
}

// linkSpeed returns the rate of an interface, 0 without a link: the read fails, or gives -1.
func linkSpeed(sys fs.FS, netdev string) int {
	mbps, err := strconv.Atoi(attribute(sys, netdev+"/speed"))
	if err != nil {
		return 0
	}
	return max(mbps, 0)
}

// pcieMbps returns what the PCIe link of a function carries when both of its ends do what they can, 0 if that is not
// known. In a VM the port above the card may be emulated: then the link carries more now than that port says.
func pcieMbps(sys fs.FS, dir string) int {
	card, known := ReadPCIeLink(sys, dir, "max")
	slot, has := ReadPCIeLink(sys, path.Dir(dir), "max")
	now, _ := ReadPCIeLink(sys, dir, "current")
	if !known || !has || now.Capacity() > slot.Capacity() {
		return 0
	}
	return PCIeLink{MTs: min(card.MTs, slot.MTs), Lanes: min(card.Lanes, slot.Lanes)}.Mbps()
}
