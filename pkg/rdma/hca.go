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

// card is one HCA with the dependencies that the scanner needs to update it. Its owner is one
// goroutine at a time.
type card struct {
	files   reader
	ask     func(ibdev string) *Software // may be nil
	netdevs *netdevTable

	hca          HCA
	real, parent string   // directories of the HCA and of the device that carries it
	soft         string   // the interface below a software HCA, "" if unknown
	gidNetdevs   []string // by port, the interface in its first GID; it may be in another namespace
	bonded       []string // the members of bonds that are LAGs, or may become some
	alone        []Port   // before markSwitchHCAs compared the HCA with others in its slot
	byGUID       bool     // findNetdev compared hardware addresses
	slot         string   // its name without a discriminator
	key          sortKey
	dependencies []dependency
}

// readCard reads one entry of /sys/class/infiniband. It returns nil if the entry does not exist,
// or links to a directory that the kernel is removing.
func readCard(s *Scanner, ibdev string) *card {
	if !isName(ibdev) {
		return nil // the name came from a node's file
	}
	c := &card{files: reader{sys: s.sys, ibdev: ibdev}, ask: s.Software, netdevs: s.netdevs, hca: HCA{IBDev: ibdev}}
	real, err := c.files.realpath(classInfiniband + "/" + ibdev)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.files.problem(fmt.Errorf("read device link: %w", err))
			return c
		}
		return nil
	}
	c.hca.NodeType = NodeType(parsed(&c.files, real+"/node_type", word))
	if c.hca.NodeType == "" {
		_, err := fs.Stat(s.sys, real)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil { // it may be there: what cannot be read has not gone
			c.files.problem(fmt.Errorf("look at the device: %w", err))
			return c
		}
	}
	c.real, c.parent = real, c.files.parentDevice(real)
	c.readHCA()
	c.hca.Uverbs, c.hca.MADs = s.nodes.nodesOf(ibdev)
	c.setName("")
	c.slot = c.hca.Name
	c.dependencies = c.depends()
	return c
}

// setName sets the HCA's name from its slot and the discriminator within the slot.
func (c *card) setName(discriminator string) {
	c.hca.Identity.Discriminator = discriminator
	c.hca.Name = c.hca.Identity.Name()
	c.key = c.hca.sortKey()
}

// exists reports whether the card has an HCA, and not only a problem.
func (c *card) exists() bool { return c.real != "" }

func (c *card) readHCA() {
	h := &c.hca
	h.NodeGUID = parsed(&c.files, c.real+"/node_guid", ParseGUID)
	h.SysImageGUID = parsed(&c.files, c.real+"/sys_image_guid", ParseGUID)
	h.Firmware = c.files.read(c.real + "/fw_ver")
	h.BoardID = c.files.read(c.real + "/board_id")
	h.Model = c.files.read(c.real + "/hca_type")
	if h.Model == "" {
		c.soft = c.files.read(c.real + "/parent") // rxe only, which has no hca_type
	}
	c.readSlot()
	if h.Function == Virtual && c.ask != nil {
		c.askSoftware()
	}
	c.readPorts()
	if h.Identity.Kind != "" && h.Identity.Netdev == "" {
		c.nameByPort()
	}
	h.Protocol = c.protocol()
	c.readPSM()
}

// readSlot reads what the HCA sits on: identity, function, PCI, driver.
func (c *card) readSlot() {
	h, where := &c.hca, PlaceOf(c.parent)
	driver := ""
	if where.Address != "" {
		if pf := c.files.link(where.dir + "/physfn"); pf != "" {
			h.Function, h.PF = VF, pf
		}
		driver = c.readPCI(where)
	}
	switch {
	case c.soft != "":
		h.Function, h.PF, h.Driver = Virtual, "", "rxe"
		h.Identity = Identity{Kind: "rxe", Netdev: c.soft}
	case where.Address == "":
		h.Function = Virtual
		if h.NodeType == NodeTypeRNIC {
			h.Driver = "siw" // the other one without a parent device is soft-RoCE on older kernels
		}
		h.Identity = Identity{Kind: cmp.Or(h.Driver, "virtual")}
	default:
		h.Identity = Identity{PCI: where.Address}
		h.Driver = driver
		if h.Function == "" {
			h.Function = PF
		}
		if where.aux != "" {
			c.readAux(where)
		}
	}
}

// askSoftware asks RDMA netlink for the interface of a software HCA. A name that the host has counts more than sysfs.
func (c *card) askSoftware() {
	h := &c.hca
	if h.Software = c.ask(c.hca.IBDev); h.Software != nil && h.Software.Netdev != "" {
		c.soft, h.Identity.Netdev = h.Software.Netdev, h.Software.Netdev
	}
}

// Foreign reports whether the interface of a software HCA is known not to be the host's.
func (h *HCA) Foreign() bool { return h.Software != nil && h.Software.Netdev == "" }

// readAux reads an HCA on an auxiliary device. Only a subfunction has a number of its
// own (file sfnum). Other auxiliary devices, such as ice.roce.0, are how a driver splits
// one PCI function.
func (c *card) readAux(where Place) {
	h := &c.hca
	h.Driver = c.files.link(c.parent + "/driver")
	if sf := parsed(&c.files, c.parent+"/sfnum", number); sf != nil {
		h.Function, h.PF, h.Identity.SF = SF, where.Address, sf
	}
}

// nameByPort sets the identity of a software HCA without a parent file: the interface of its
// first port, or its ibdev name if the interface is unknown too.
func (c *card) nameByPort() {
	h := &c.hca
	h.Identity.Netdev = h.IBDev
	if p := h.Port1(); p != nil && p.Netdev != "" {
		h.Identity.Netdev = p.Netdev
	}
}

// readPCI reads the PCI function that carries the HCA, and returns its driver. The file uevent has all
// IDs and the driver. The function reads vendor, device and the driver link only where uevent lacks them, as on
// some kernels and in copies of sysfs.
func (c *card) readPCI(where Place) (driver string) {
	f := &PCIFunction{Address: where.Address, Root: where.Root, Bridges: where.Bridges}
	for line := range strings.Lines(c.files.read(where.dir + "/uevent")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "DRIVER":
			driver = value
		case "PCI_ID":
			f.Vendor, f.Device, _ = strings.Cut(strings.ToLower(value), ":")
		}
	}
	if f.Vendor == "" {
		f.Vendor = parsed(&c.files, where.dir+"/vendor", parsePCIID)
	}
	if f.Device == "" {
		f.Device = parsed(&c.files, where.dir+"/device", parsePCIID)
	}
	if driver == "" {
		driver = c.files.link(where.dir + "/driver")
	}
	f.NUMANode = parsed(&c.files, where.dir+"/numa_node", number)
	if c.hca.Function != VF {
		f.TotalVFs = parsed(&c.files, where.dir+"/sriov_totalvfs", number)
		f.NumVFs = parsed(&c.files, where.dir+"/sriov_numvfs", number)
	}
	c.hca.PCI = f
	return driver
}

// readPorts reads the ports of an HCA. The kernel numbers them from 1 without gaps
// (rdma_start_port, rdma_end_port). Only an InfiniBand switch has a port 0.
func (c *card) readPorts() {
	for n := 1; ; n++ {
		dir := c.real + "/ports/" + strconv.Itoa(n)
		linkLayer, exists := c.files.lookUp(dir + "/link_layer")
		if linkLayer == "" && exists {
			_, err := fs.Stat(c.files.sys, dir) // link_layer may fail for every number if ports itself does
			exists = err == nil
		}
		if !exists {
			break
		}
		p := c.files.readPort(dir, n, LinkLayer(linkLayer))
		c.findNetdev(&p)
		c.bonded = append(c.bonded, c.netdevs.readLAG(&p, c.hca.Driver, c.parent)...)
		c.hca.Ports = append(c.hca.Ports, p)
	}
	if c.hca.Ports == nil {
		c.hca.Ports = []Port{} // JSON readers expect a list
	}
	c.markRepresentors()
	c.alone = c.hca.Ports
}

func (r *reader) readPort(dir string, n int, layer LinkLayer) Port {
	p := Port{
		Number:    n,
		LinkLayer: layer,
		State:     PortState(parsed(r, dir+"/state", word)),
		PhysState: parsed(r, dir+"/phys_state", word),
		RateMbps:  parsed(r, dir+"/rate", ParseRate),
	}
	switch layer {
	case LinkInfiniBand:
		p.LID = r.read(dir + "/lid")
		p.SubnetPrefix = parsed(r, dir+"/gids/0", ParseGIDPrefix)
	case LinkEthernet:
		// The read fails with EINVAL while slot 0 is empty, as on a VF whose interface has no address.
		p.Netdev = r.optional(dir + "/gid_attrs/ndevs/0")
	}
	return p
}

// protocol derives the transport from sysfs. The kernel's own value is available by
// netlink only (RDMA_NLDEV_ATTR_DEV_PROTOCOL).
func (c *card) protocol() Protocol {
	h := &c.hca
	switch {
	case h.Driver == "efa":
		return ProtocolEFA
	case h.Driver == driverOP:
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

// hasGIDs reports whether a port has a GID table, even an empty one. A port without a table
// sends raw Ethernet only, as on the HCA of a PF in switchdev mode.
func (c *card) hasGIDs(port int) bool {
	if port <= len(c.gidNetdevs) && c.gidNetdevs[port-1] != "" {
		return true
	}
	_, err := fs.Stat(c.files.sys, path.Join(c.real, "ports", strconv.Itoa(port), "gids/0"))
	return err == nil
}

// discriminator returns the node GUID. It returns the ibdev name if the GUID is not set, or
// another HCA of the slot has the same one.
func discriminator(c *card, slot []*card) string {
	for _, other := range slot {
		if c.hca.NodeGUID == 0 || other != c && other.hca.NodeGUID == c.hca.NodeGUID {
			return c.hca.IBDev
		}
	}
	return fmt.Sprintf("%016x", uint64(c.hca.NodeGUID))
}
