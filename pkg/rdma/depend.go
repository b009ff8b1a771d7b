package rdma

import "slices"

// dependency is something beside its own directory that an HCA's picture is made of.
type dependency struct {
	kind dependencyKind
	name string
}

type dependencyKind int

const (
	onDevice   dependencyKind = iota // the interfaces of the device in this directory
	onNetdev                         // the interface of this name
	onAddress                        // the interface whose hardware address makes this GUID
	onFunction                       // the PCI function of this address
	onVFLinks                        // the links from the PF of this address to its VFs
	inSlot                           // the other HCAs in the slot of this name
)

// dependents finds the HCAs that depend on something.
type dependents map[dependency][]*card

func (d dependents) add(c *card) {
	for _, on := range c.dependencies {
		d[on] = append(d[on], c)
	}
}

func (d dependents) remove(c *card) {
	for _, on := range c.dependencies {
		rest := slices.DeleteFunc(d[on], func(other *card) bool { return other == c })
		if len(rest) > 0 {
			d[on] = rest
		} else {
			delete(d, on)
		}
	}
}

// netdevs adds the HCAs whose ports may have got their interfaces, or the lack of
// one, because of n, which may be nil.
func (d dependents) ofNetdev(n *netdev, ibdevs *Names) {
	if n == nil {
		return
	}
	d.of(dependency{onNetdev, n.name}, ibdevs)
	if n.device != "" {
		d.of(dependency{onDevice, n.device}, ibdevs)
	}
	if n.guid != 0 {
		d.of(dependency{onAddress, n.guid.String()}, ibdevs)
	}
}

// of adds the HCAs that depend on something.
func (d dependents) of(on dependency, ibdevs *Names) {
	for _, c := range d[on] {
		ibdevs.Add(c.ibdev)
	}
}

// depends lists what an HCA that has been read depends on.
func (c *card) depends() []dependency {
	h := &c.hca
	list := []dependency{{onDevice, c.parent}, {inSlot, c.slot}}
	if h.PCI != nil {
		list = append(list, dependency{onFunction, h.PCI.Address})
	}
	if h.Function == VF {
		list = append(list, dependency{onVFLinks, h.PF})
	}
	if c.byGUID {
		list = append(list, dependency{onAddress, h.NodeGUID.String()})
	}
	for i, p := range h.Ports {
		list = append(list, dependency{onNetdev, p.Netdev})
		if gid := c.gidNetdevs[i]; gid != p.Netdev {
			list = append(list, dependency{onNetdev, gid})
		}
	}
	return list
}
