package rdma

import "strconv"

// Poll reads the state that changes without an event of the kernel, and returns the changes since
// the last Scan or Update: the netns mode, the states of ports, and the rates of LAGs. A port of InfiniBand or EFA
// goes down without an event. For RoCE, the interface of the port has events, but it may be in
// a container. A member that LACP leaves out of a LAG keeps its link.
//
// Poll reads one file for an active port, two for another, and the members of a bond. It leaves out a VF or SF that was
// active, as long as its PF is: its link is that of the PF, unless an administrator sets it (`ip link set PF vf N
// state`), and hosts have a thousand VFs. Some devices ask their firmware for each read: call Poll at most a few times
// a minute. Before the first Scan it returns no changes.
func (s *Scanner) Poll() Changes {
	var c Changes
	if s.snap == nil {
		return c
	}
	c.Host = !readHost(s.sys).same(s.snap)
	changed := make([]bool, len(s.order))
	read := func(which func(*card) bool) {
		inParallel(len(s.order), func(i int) { changed[i] = which(s.order[i]) && s.order[i].stateChanged() || changed[i] })
	}
	read(func(c *card) bool { return c.hca.PF == "" })
	active := map[string]bool{} // by the address of the PF: all its ports are, and were
	for i, card := range s.order {
		if f := card.hca.PCI; f != nil && card.hca.PF == "" {
			others, more := active[f.Address]
			active[f.Address] = (others || !more) && !changed[i] && card.hca.active()
		}
	}
	read(func(c *card) bool { return c.hca.PF != "" && !(c.hca.active() && active[c.hca.PF]) })
	for i, card := range s.order {
		if changed[i] {
			c.IBDevs.Add(card.hca.IBDev)
		}
	}
	return c
}

// active reports whether all own ports were active when the HCA was read.
func (h *HCA) active() bool {
	for p := range h.OwnPorts() {
		if p.State != PortActive {
			return false
		}
	}
	return true
}

// stateChanged reports whether the state of a port, or its rate on a LAG, differs from the last read.
func (c *card) stateChanged() bool {
	r := reader{sys: c.files.sys}
	for p := range c.hca.OwnPorts() {
		dir := c.real + "/ports/" + strconv.Itoa(p.Number)
		if PortState(parsed(&r, dir+"/state", word)) != p.State {
			return true
		}
		if p.State != PortActive && parsed(&r, dir+"/phys_state", word) != p.PhysState {
			return true
		}
		now := *p
		now.LAG = LAG{}
		if c.netdevs.readLAG(&now, c.hca.Driver, c.parent); now != *p {
			return true
		}
	}
	return false
}
