package rdma

// dependency is a part of sysfs, outside an HCA's own directory, from which the scanner read attributes of the HCA.
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
	onCard                           // the HCAs on other functions of this PCI slot
)

// dependents holds the HCAs that depend on each part. A card adds and removes itself with all its dependencies.
type dependents map[dependency][]*card

func (d dependents) add(c *card) {
	for _, on := range c.dependencies {
		d[on] = append(d[on], c)
	}
}

func (d dependents) remove(c *card) {
	for _, on := range c.dependencies {
		remove(d, on, c)
	}
}

// ofNetdev adds the HCAs that may have gained or lost n as the interface of a port. n may be nil.
func (d dependents) ofNetdev(n *netdev, ibdevs *Names) {
	if n == nil {
		return
	}
	d.addTo(dependency{onNetdev, n.name}, ibdevs)
	if n.device != "" {
		d.addTo(dependency{onDevice, n.device}, ibdevs)
	}
	if n.guid != 0 {
		d.addTo(dependency{onAddress, n.guid.String()}, ibdevs)
	}
}

// addTo adds the HCAs that depend on a part.
func (d dependents) addTo(on dependency, ibdevs *Names) {
	for _, c := range d[on] {
		ibdevs.Add(c.hca.IBDev)
	}
}

// depends lists the dependencies of an HCA after it was read.
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
	if h.Software != nil {
		list = append(list, dependency{onNetdev, h.Identity.Netdev})
	}
	for _, member := range c.bonded {
		list = append(list, dependency{onNetdev, member})
	}
	if len(c.bonded) > 0 {
		list = append(list, dependency{onCard, PlaceOf(c.parent).slot()})
	}
	for i, p := range h.Ports {
		list = append(list, dependency{onNetdev, p.Netdev})
		if gid := c.gidNetdevs[i]; gid != p.Netdev {
			list = append(list, dependency{onNetdev, gid})
		}
	}
	return list
}
