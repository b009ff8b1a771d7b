package rdma

import "slices"

// An embedded switch has an interface for each function behind it, its representor, and mlx5 gives
// each of them RDMA as well, raw Ethernet only: to the traffic of another function, so no container
// gets one. Linux 5.3 and newer have one HCA on the PF, with a port for each. Kernels before have
// an HCA for each, on the PF too (drivers/infiniband/hw/mlx5/ib_rep.c).

// markRepresentors finds the ports that stand for functions of an embedded
// switch: those with a representor as interface, and, of an HCA with several
// ports on a device with representors, those without any. In switchdev mode such
// a port has no GIDs, and only netlink tells which representor is its own. A VF
// has no embedded switch.
func (c *card) markRepresentors() {
	if c.hca.Function == VF {
		return
	}
	if !slices.ContainsFunc(c.netdevs.of(c.parent), func(n *netdev) bool { return n.representor }) {
		return
	}
	for i := range c.hca.Ports {
		p := &c.hca.Ports[i]
		n := c.netdevs.named(p.Netdev)
		p.Representor = n == nil && len(c.hca.Ports) > 1 || n != nil && n.device == c.parent && n.representor
	}
}

// isRaw reports whether an HCA of a PF sends raw Ethernet only, as all HCAs of a switch do.
func (c *card) isRaw() bool {
	h := &c.hca
	raw := func(p Port) bool { return p.LinkLayer == LinkEthernet && !c.hasGIDs(p.Number) }
	return h.Function == PF && h.NodeType == NodeTypeCA && h.Protocol == ProtocolUnknown &&
		len(c.alone) > 0 && !slices.ContainsFunc(c.alone, func(p Port) bool { return !raw(p) })
}

// markSwitchHCAs marks the HCAs of one slot that are the ports of a switch, one HCA for each port. One of
// them is the uplink's, and sysfs does not tell which, so all are left out: without GIDs, no RDMA
// program loses anything by that. The ports of an HCA that is not read anew are copied, since
// snapshots share them.
func (p *pass) markSwitchHCAs(cards []*card) {
	var raw []*card
	if len(cards) > 1 {
		for _, c := range cards {
			if c.isRaw() {
				raw = append(raw, c)
			}
		}
	}
	ofSwitch := len(raw) > 1 && p.netdevs.isSwitch(raw[0].parent)
	for _, c := range cards {
		ports := c.alone
		if ofSwitch && slices.Contains(raw, c) {
			ports = slices.Clone(ports)
			for i := range ports {
				ports[i].Representor = true
			}
		}
		if !slices.Equal(ports, c.hca.Ports) {
			c.hca.Ports = ports
			p.changed = p.changed || !p.isRead(c)
		}
	}
}
