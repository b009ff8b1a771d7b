package rdma

import "slices"

// An embedded switch has a representor: an interface for each function behind it. mlx5 adds RDMA to each of them,
// for raw Ethernet only. It would give access to the traffic of another function, so no container gets one. Linux
// 5.3 and newer have one HCA on the PF, with a port for each representor. Older kernels have an HCA for each, also
// on the PF (drivers/infiniband/hw/mlx5/ib_rep.c).

// markRepresentors marks the ports that belong to other functions of an embedded
// switch: ports whose interface is a representor. On an HCA with several ports on a device with
// representors, it also marks the ports without an interface. In switchdev mode such a
// port has no GIDs, and only netlink knows its representor. A VF has no embedded switch.
func (c *card) markRepresentors() {
	if c.hca.Function == VF {
		return
	}
	if !slices.ContainsFunc(c.netdevs.netdevsOf(c.parent), func(n *netdev) bool { return n.representor }) {
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

// markSwitchHCAs marks the HCAs of one slot that are ports of a switch, with one HCA for each port. One of
// them belongs to the uplink, but sysfs does not say which one, so the function marks all of them. They have no
// GIDs, so no RDMA program needs them. Snapshots share the ports of HCAs that were not read again, so the
// function copies them before a change.
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
		if !slices.Equal(ports, c.hca.Ports) { // equal ones share their memory with older snapshots
			c.hca.Ports = ports
		}
	}
}
