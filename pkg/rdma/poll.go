package rdma

import "strconv"

// Poll reads what changes without an event of the kernel, and returns what is not as
// the last Scan or Update found it: the netns mode, and the states of ports. A port
// of InfiniBand or EFA goes down in silence; one whose interface is on this host is
// announced by the interface, but that may be in a container.
//
// It reads one file for an active port, two for another. Some devices ask their
// firmware then, so do not call it more than a few times a minute. It sees nothing
// before the first Scan.
func (s *Scanner) Poll() Changes {
	var c Changes
	if s.snap == nil {
		return c
	}
	c.Host = !readHost(s.sys).same(s.snap)
	moved := make([]bool, len(s.order))
	inParallel(len(s.order), func(i int) { moved[i] = s.order[i].moved() })
	for i, card := range s.order {
		if moved[i] {
			c.IBDevs.Add(card.ibdev)
		}
	}
	return c
}

// moved reports whether the state of a port is not what was read.
func (c *card) moved() bool {
	r := reader{sys: c.sys}
	for p := range c.hca.OwnPorts() {
		dir := c.real + "/ports/" + strconv.Itoa(p.Number)
		if PortState(parsed(&r, dir+"/state", word)) != p.State {
			return true
		}
		if p.State != PortActive && parsed(&r, dir+"/phys_state", word) != p.PhysState {
			return true
		}
	}
	return false
}
