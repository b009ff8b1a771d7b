package rdma

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// readHCA reads one entry of /sys/class/infiniband. It fails if the entry leads
// nowhere: the HCA is gone since it was listed.
func (d *discovery) readHCA(ibdev string, uverbs *Node, mads []Node) (HCA, error) {
	h := HCA{IBDev: ibdev, Uverbs: uverbs, MADs: mads}
	real, err := d.realpath(path.Join(classInfiniband, ibdev))
	if err == nil {
		_, err = fs.Stat(d.sys, real)
	}
	if err != nil {
		return h, fmt.Errorf("read device link: %w", err)
	}
	parent := d.parentDevice(real)
	where := locate(parent)
	soft := d.read(ibdev, path.Join(real, "parent")) // rxe only: the interface below

	h.NodeType = NodeType(parsed(d, ibdev, path.Join(real, "node_type"), word))
	h.NodeGUID = parsed(d, ibdev, path.Join(real, "node_guid"), ParseGUID)
	h.SysImageGUID = parsed(d, ibdev, path.Join(real, "sys_image_guid"), ParseGUID)
	h.Firmware = d.read(ibdev, path.Join(real, "fw_ver"))
	h.BoardID = d.read(ibdev, path.Join(real, "board_id"))
	h.Model = d.read(ibdev, path.Join(real, "hca_type"))
	d.readSlot(&h, parent, where, soft)
	h.Ports = d.readPorts(&h, real, parent, soft)
	if h.Identity.Kind != "" && h.Identity.Netdev == "" {
		d.nameByPort(&h)
	}
	h.Protocol = d.protocol(&h, real)
	return h, nil
}

// parentDevice returns the directory of the device that carries an HCA: two
// levels up from .../infiniband/mlx5_0. Where the class entry is a directory of
// its own, the device link tells it.
func (d *discovery) parentDevice(real string) string {
	if !strings.HasPrefix(real, classInfiniband+"/") {
		return path.Dir(path.Dir(real))
	}
	target, err := d.sys.ReadLink(path.Join(real, "device"))
	if err != nil {
		return ""
	}
	return path.Join(real, target)
}

// readSlot fills in what the HCA sits on: identity, function, PCI, driver.
func (d *discovery) readSlot(h *HCA, parent string, where place, soft string) {
	if where.address != "" {
		h.PCI = d.readPCI(h.IBDev, where)
	}
	switch {
	case soft != "":
		h.Function, h.Driver = Virtual, "rxe"
		h.Identity = Identity{Kind: "rxe", Netdev: soft}
	case where.address == "":
		h.Function, h.Driver = Virtual, softDriver(h)
		h.Identity = Identity{Kind: h.Driver}
		if h.Driver == "" {
			h.Identity.Kind = "virtual"
		}
	case where.aux != "":
		h.Driver = d.link(path.Join(parent, "driver"))
		d.readAux(h, parent, where)
	default:
		h.Driver = d.link(path.Join(where.dir, "driver"))
		h.Identity = Identity{PCI: where.address}
		h.Function = PF
		if pf := d.link(path.Join(where.dir, "physfn")); pf != "" {
			h.Function, h.PF = VF, pf
		}
	}
}

// readAux handles an HCA on an auxiliary device: a subfunction has a number of
// its own (file sfnum); other auxiliary devices, such as ice.roce.0, are just
// how a driver splits one PCI function.
func (d *discovery) readAux(h *HCA, parent string, where place) {
	h.Identity = Identity{PCI: where.address}
	sf := parsed(d, h.IBDev, path.Join(parent, "sfnum"), number)
	if sf != nil {
		h.Function, h.PF, h.Identity.SF = SF, where.address, sf
		return
	}
	h.Function = PF
	if pf := d.link(path.Join(where.dir, "physfn")); pf != "" {
		h.Function, h.PF = VF, pf
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
func (d *discovery) nameByPort(h *HCA) {
	h.Identity.Netdev = h.IBDev
	if p := h.Port1(); p != nil && p.Netdev != "" {
		h.Identity.Netdev = p.Netdev
	}
}

// link returns the last component of a link's target, "" if there is no link.
func (d *discovery) link(name string) string {
	target, err := d.sys.ReadLink(name)
	if err != nil {
		return ""
	}
	return path.Base(target)
}

func (d *discovery) readPCI(ibdev string, where place) *PCIFunction {
	hex := func(name string) string {
		return strings.TrimPrefix(d.read(ibdev, path.Join(where.dir, name)), "0x")
	}
	return &PCIFunction{
		Address:  where.address,
		Root:     where.root,
		Bridges:  where.bridges,
		Vendor:   hex("vendor"),
		Device:   hex("device"),
		NUMANode: parsed(d, ibdev, path.Join(where.dir, "numa_node"), number),
		TotalVFs: parsed(d, ibdev, path.Join(where.dir, "sriov_totalvfs"), number),
		NumVFs:   parsed(d, ibdev, path.Join(where.dir, "sriov_numvfs"), number),
	}
}

// readPorts reads the ports of an HCA in the order of their numbers.
func (d *discovery) readPorts(h *HCA, real, parent, soft string) []Port {
	names := d.list(path.Join(real, "ports"))
	ports := make([]Port, 0, len(names))
	for _, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p := d.readPort(h.IBDev, path.Join(real, "ports", name), n)
		d.findNetdev(&p, h, parent, soft)
		ports = append(ports, p)
	}
	slices.SortFunc(ports, func(a, b Port) int { return a.Number - b.Number })
	d.markRepresentors(ports, parent)
	return ports
}

func (d *discovery) readPort(ibdev, dir string, n int) Port {
	p := Port{
		Number:    n,
		LinkLayer: LinkLayer(d.read(ibdev, path.Join(dir, "link_layer"))),
		State:     PortState(parsed(d, ibdev, path.Join(dir, "state"), word)),
		PhysState: parsed(d, ibdev, path.Join(dir, "phys_state"), word),
		RateMbps:  parsed(d, ibdev, path.Join(dir, "rate"), ParseRate),
		LID:       d.read(ibdev, path.Join(dir, "lid")),
	}
	switch p.LinkLayer {
	case LinkInfiniBand:
		p.SubnetPrefix = parsed(d, ibdev, path.Join(dir, "gids/0"), ParseGIDPrefix)
	case LinkEthernet:
		// EINVAL while slot 0 is empty, as on a VF whose interface has no address.
		p.Netdev = d.optional(path.Join(dir, "gid_attrs/ndevs/0"))
	}
	return p
}

// protocol tells the transport from what sysfs shows. The kernel's own word for
// it is in netlink only (RDMA_NLDEV_ATTR_DEV_PROTOCOL).
func (d *discovery) protocol(h *HCA, real string) Protocol {
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
	case p.LinkLayer == LinkEthernet && h.NodeType == NodeTypeCA && d.hasGIDs(real, p.Number):
		return ProtocolRoCE
	}
	return ProtocolUnknown
}

// hasGIDs reports whether a port has a GID table, be its slots empty. Without one
// it sends raw Ethernet only, as the HCA of a PF in switchdev mode does.
func (d *discovery) hasGIDs(real string, port int) bool {
	_, err := fs.Stat(d.sys, path.Join(real, "ports", strconv.Itoa(port), "gids/0"))
	return err == nil
}

// linkVFs gives VFs their index, from the virtfnK links of each PF directory.
func (d *discovery) linkVFs() {
	index := map[string]map[string]int{} // PF address, VF address
	for i := range d.snap.HCAs {
		h := &d.snap.HCAs[i]
		if h.Function != VF {
			continue
		}
		vfs, ok := index[h.PF]
		if !ok {
			vfs = d.readVFLinks(h.PF)
			index[h.PF] = vfs
		}
		if k, ok := vfs[h.Identity.PCI]; ok {
			h.VFIndex = &k
		}
	}
}

func (d *discovery) readVFLinks(pf string) map[string]int {
	dir, err := d.realpath(path.Join("bus/pci/devices", pf))
	if err != nil {
		return nil
	}
	vfs := map[string]int{}
	for _, name := range d.list(dir) {
		if num, ok := strings.CutPrefix(name, "virtfn"); ok {
			if k, err := strconv.Atoi(num); err == nil {
				vfs[d.link(path.Join(dir, name))] = k
			}
		}
	}
	return vfs
}

// identify names the HCAs, and tells apart those that share a slot: an mlx5
// function in switchdev mode, or a MANA function with its two devices. An HCA
// that no program can use does not count, so that a management-only sub-device
// does not rename the device beside it.
func (d *discovery) identify() {
	slots := map[string][]*HCA{}
	for i := range d.snap.HCAs {
		h := &d.snap.HCAs[i]
		h.Name = h.Identity.Name()
		slots[h.Name] = append(slots[h.Name], h)
	}
	for _, hcas := range slots {
		usable := slices.DeleteFunc(slices.Clone(hcas), func(h *HCA) bool { return h.Unusable() != nil })
		for _, h := range hcas {
			if len(hcas) > 1 && !(len(usable) == 1 && usable[0] == h) {
				h.Identity.Discriminator = discriminator(h, hcas)
				h.Name = h.Identity.Name()
			}
		}
	}
}

// discriminator is the node GUID, or the ibdev name where another HCA of the
// slot has the same GUID or none is set.
func discriminator(h *HCA, slot []*HCA) string {
	for _, other := range slot {
		if h.NodeGUID == 0 || (other != h && other.NodeGUID == h.NodeGUID) {
			return h.IBDev
		}
	}
	return fmt.Sprintf("%016x", uint64(h.NodeGUID))
}
