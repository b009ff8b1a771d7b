package rdma

import (
	"path"
	"strings"
)

// The user devices of Omni-Path. The kernel gives device and HCA one name (hfi1_0), and does not link them
// (drivers/infiniband/hw/hfi1/file_ops.c, user_add).
const (
	classPSM = "class/hfi1_user"
	driverOP = "hfi1"
)

// readPSM finds the user device of an Omni-Path HCA by the name that the kernel gives both. udev may have renamed the
// HCA: then it is the only one of the class, if the host has one such card. Otherwise the HCA has none, because a
// container would get the node of another card.
func (c *card) readPSM() {
	if c.hca.Driver != driverOP {
		return
	}
	name := c.ibdev
	dev, exists := c.lookUp(path.Join(classPSM, name, "dev"))
	if !exists {
		names := c.list(classPSM)
		if len(names) != 1 || c.countPSMCards() != 1 {
			return
		}
		name = names[0]
		dev = c.optional(path.Join(classPSM, name, "dev"))
	}
	n := Node{Kind: NodePSM, Name: name}
	if isName(name) && n.setDev(&c.reader, dev) {
		c.hca.PSM = &n
	}
}

// countPSMCards counts the PCI functions that the driver holds.
func (c *card) countPSMCards() int {
	n := 0
	for _, name := range c.list("bus/pci/drivers/" + driverOP) {
		if strings.Count(name, ":") == 2 { // an address; bind and module are beside it
			n++
		}
	}
	return n
}
