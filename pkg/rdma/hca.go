package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// card is one HCA while it is read, and what a scanner has to remember of it
// besides: which other parts of sysfs it was made of.
type card struct {
	reader
	netdevs *netdevTable

	hca          HCA
	real, parent string   // directories of the HCA and of the device that carries it
	soft         string   // the interface below a soft-RoCE HCA
	gidNetdevs   []string // by port, the interface that its first GID names, be it on this host or not
	alone        []Port   // as far as the HCA itself says; hca.Ports has what others in the slot say
	byGUID       bool     // interfaces were compared by hardware address
	slot         string   // its name without a discriminator
	key          sortKey
	dependencies []dependency
}

// readCard reads one entry of /sys/class/infiniband; nil if it does not exist, or
// leads nowhere because the HCA is going.
func readCard(sys fs.ReadLinkFS, netdevs *netdevTable, nodes *nodeTable, ibdev string) *card {
	if !isName(ibdev) {
		return nil // whatever a node says
	}
	c := &card{reader: reader{sys: sys, ibdev: ibdev}, netdevs: netdevs, hca: HCA{IBDev: ibdev}}
	real, err := c.realpath(classInfiniband + "/" + ibdev)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.problem(fmt.Errorf("read device link: %w", err))
			return c
		}
		return nil
	}
	c.real, c.parent = real, c.parentDevice(real)
	nodeType, exists := c.lookUp(real + "/node_type")
	if !exists {
		if _, err := fs.Stat(sys, real); err != nil {
			return nil
		}
	}
	c.hca.NodeType = NodeType(parsedText(&c.reader, real+"/node_type", nodeType, word))
	c.readHCA()
	c.hca.Uverbs, c.hca.MADs = nodes.of(ibdev)
	c.setName("")
	c.slot = c.hca.Name
	c.dependencies = c.depends()
	return c
}

// setName names the HCA after its slot and what tells it from others there.
func (c *card) setName(discriminator string) {
	c.hca.Identity.Discriminator = discriminator
	c.hca.Name = c.hca.Identity.Name()
	c.key = c.hca.sortKey()
}

// exists reports whether there is an HCA, and not just a problem.
func (c *card) exists() bool { return c.real != "" }

func (c *card) readHCA() {
	h := &c.hca
	h.NodeGUID = parsed(&c.reader, c.real+"/node_guid", ParseGUID)
	h.SysImageGUID = parsed(&c.reader, c.real+"/sys_image_guid", ParseGUID)
	h.Firmware = c.read(c.real + "/fw_ver")
	h.BoardID = c.read(c.real + "/board_id")
	h.Model = c.read(c.real + "/hca_type")
	if h.Model == "" {
		c.soft = c.read(c.real + "/parent") // rxe only, which has no hca_type
	}
	c.readSlot()
	c.readPorts()
	if h.Identity.Kind != "" && h.Identity.Netdev == "" {
		c.nameByPort()
	}
	h.Protocol = c.protocol()
}

// readSlot fills in what the HCA sits on: identity, function, PCI, driver.
func (c *card) readSlot() {
	h, where := &c.hca, locate(c.parent)
	driver := ""
	if where.address != "" {
		if pf := c.link(where.dir + "/physfn"); pf != "" {
			h.Function, h.PF = VF, pf
		}
		driver = c.readPCI(where)
	}
	switch {
	case c.soft != "":
		h.Function, h.PF, h.Driver = Virtual, "", "rxe"
		h.Identity = Identity{Kind: "rxe", Netdev: c.soft}
	case where.address == "":
		h.Function, h.Driver = Virtual, softDriver(h)
		h.Identity = Identity{Kind: cmp.Or(h.Driver, "virtual")}
	default:
		h.Identity = Identity{PCI: where.address}
		h.Driver = driver
		if h.Function == "" {
			h.Function = PF
		}
		if where.aux != "" {
			c.readAux(where)
		}
	}
}

// readAux handles an HCA on an auxiliary device: a subfunction has a number of
// its own (file sfnum); other auxiliary devices, such as ice.roce.0, are just
// how a driver splits one PCI function.
func (c *card) readAux(where place) {
	h := &c.hca
	h.Driver = c.link(c.parent + "/driver")
	if sf := parsed(&c.reader, c.parent+"/sfnum", number); sf != nil {
		h.Function, h.PF, h.Identity.SF = SF, where.address, sf
	}
}

// softDriver guesses the driver of an HCA without a parent device. Such HCAs are
// soft-RoCE on kernels without the parent file, or soft-iWARP (RNIC).
func softDriver(h *HCA) string {
	if h.NodeType == NodeTypeRNIC {
		return "siw"
	}
	return ""
}

// nameByPort gives a software HCA without a parent file the interface of its
// first port as identity, and its ibdev name where that is unknown too.
func (c *card) nameByPort() {
	h := &c.hca
	h.Identity.Netdev = h.IBDev
	if p := h.Port1(); p != nil && p.Netdev != "" {
		h.Identity.Netdev = p.Netdev
	}
}

// readPCI reads the PCI function that carries the HCA, and returns its driver.
func (c *card) readPCI(where place) (driver string) {
	f := &PCIFunction{Address: where.address, Root: where.root, Bridges: where.bridges}
	driver = c.readPCIDevice(where, f)
	f.NUMANode = parsed(&c.reader, where.dir+"/numa_node", number)
	if c.hca.Function != VF {
		f.TotalVFs = parsed(&c.reader, where.dir+"/sriov_totalvfs", number)
		f.NumVFs = parsed(&c.reader, where.dir+"/sriov_numvfs", number)
	}
	c.hca.PCI = f
	return driver
}

// readPCIDevice reads which device a PCI function is, and its driver. One file has what is in
// vendor, device and the driver link; these are read for what it lacks, as on kernels and in
// copies of sysfs without it.
func (c *card) readPCIDevice(where place, f *PCIFunction) (driver string) {
	uevent := c.read(where.dir + "/uevent")
	for line := range strings.Lines(uevent) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "DRIVER":
			driver = value
		case "PCI_ID":
			f.Vendor, f.Device, _ = strings.Cut(strings.ToLower(value), ":")
		}
	}
	if f.Vendor == "" {
		f.Vendor = parsed(&c.reader, where.dir+"/vendor", parsePCIID)
	}
	if f.Device == "" {
		f.Device = parsed(&c.reader, where.dir+"/device", parsePCIID)
	}
	if driver == "" {
		driver = c.link(where.dir + "/driver")
	}
	return driver
}

// readPorts reads the ports of an HCA. The kernel numbers them from 1 without holes
// (rdma_start_port, rdma_end_port; only a switch, which nobody makes, has a port 0).
func (c *card) readPorts() {
	for n := 1; ; n++ {
		dir := c.real + "/ports/" + strconv.Itoa(n)
		linkLayer, exists := c.lookUp(dir + "/link_layer")
		if linkLayer == "" && exists {
			_, err := fs.Stat(c.sys, dir) // an error of ports itself has no end
			exists = err == nil
		}
		if !exists {
			break
		}
		p := c.readPort(dir, n, LinkLayer(linkLayer))
		c.findNetdev(&p)
		c.hca.Ports = append(c.hca.Ports, p)
	}
	if c.hca.Ports == nil {
		c.hca.Ports = []Port{} // programs iterate over it
	}
	c.markRepresentors()
	c.alone = c.hca.Ports
}

func (c *card) readPort(dir string, n int, layer LinkLayer) Port {
	p := Port{
		Number:    n,
		LinkLayer: layer,
		State:     PortState(parsed(&c.reader, dir+"/state", word)),
		PhysState: parsed(&c.reader, dir+"/phys_state", word),
		RateMbps:  parsed(&c.reader, dir+"/rate", ParseRate),
	}
	switch layer {
	case LinkInfiniBand:
		p.LID = c.read(dir + "/lid")
		p.SubnetPrefix = parsed(&c.reader, dir+"/gids/0", ParseGIDPrefix)
	case LinkEthernet:
		// EINVAL while slot 0 is empty, as on a VF whose interface has no address.
		p.Netdev = c.optional(dir + "/gid_attrs/ndevs/0")
	}
	return p
}

// protocol tells the transport from what sysfs shows. The kernel's own word for
// it is in netlink only (RDMA_NLDEV_ATTR_DEV_PROTOCOL).
func (c *card) protocol() Protocol {
	h := &c.hca
	switch {
	case h.Driver == "efa":
		return ProtocolEFA
	case h.Driver == "hfi1":
		return ProtocolOPA
	case h.NodeType == NodeTypeRNIC:
		return ProtocolIWARP
	}
	p := h.Port1()
	switch {
	case p == nil:
	case p.LinkLayer == LinkInfiniBand:
		return ProtocolIB
	case p.LinkLayer == LinkEthernet && h.NodeType == NodeTypeCA && c.hasGIDs(p.Number):
		return ProtocolRoCE
	}
	return ProtocolUnknown
}

// hasGIDs reports whether a port has a GID table, be its slots empty. Without one
// it sends raw Ethernet only, as the HCA of a PF in switchdev mode does.
func (c *card) hasGIDs(port int) bool {
	if port <= len(c.gidNetdevs) && c.gidNetdevs[port-1] != "" {
		return true
	}
	_, err := fs.Stat(c.sys, path.Join(c.real, "ports", strconv.Itoa(port), "gids/0"))
	return err == nil
}

// discriminator is the node GUID, or the ibdev name where another HCA of the
// slot has the same GUID or none is set.
func discriminator(c *card, slot []*card) string {
	for _, other := range slot {
		if c.hca.NodeGUID == 0 || other != c && other.hca.NodeGUID == c.hca.NodeGUID {
			return c.hca.IBDev
		}
	}
	return fmt.Sprintf("%016x", uint64(c.hca.NodeGUID))
}
