package rdma

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// netdevs indexes the network interfaces of a host.
type netdevs struct {
	byName   map[string]*netdev
	byDevice map[string][]*netdev // by the directory of the device below them
	byGUID   map[GUID]*netdev     // by hardware address, made when first asked for
}

// netdev is one entry of /sys/class/net. Its attributes are read once, and only
// for the interfaces of a device that carries an HCA.
type netdev struct {
	name, dir   string
	device      string // the directory of the device below it, "" for a virtual one
	read        bool
	devPort     int  // dev_port, -1 if unknown
	representor bool // phys_port_name
}

// readNetdevs lists the interfaces and the devices they belong to. It reads one
// link for each.
func (d *discovery) readNetdevs() netdevs {
	index := netdevs{byName: map[string]*netdev{}, byDevice: map[string][]*netdev{}}
	for _, name := range d.list(classNet) {
		real, err := d.realpath(path.Join(classNet, name))
		if err != nil {
			continue // gone since it was listed
		}
		n := &netdev{name: name, dir: real}
		index.byName[name] = n
		device, ok := strings.CutSuffix(real, "/net/"+name)
		if ok && strings.HasPrefix(device, "devices/") && device != "devices/virtual" {
			n.device = device
			index.byDevice[device] = append(index.byDevice[device], n)
		}
	}
	return index
}

// interfacesOf returns the interfaces of a device with their attributes.
func (d *discovery) interfacesOf(device string) []*netdev {
	all := d.netdevs.byDevice[device]
	for _, n := range all {
		if n.read {
			continue
		}
		n.read, n.devPort = true, -1
		n.representor = isRepresentor(d.optional(path.Join(n.dir, "phys_port_name")))
		if port, err := strconv.Atoi(d.optional(path.Join(n.dir, "dev_port"))); err == nil {
			n.devPort = port
		}
	}
	return all
}

// findNetdev gives a port its interface: the one of GID 0 where the kernel says
// it; else the interface of the same device whose dev_port fits; else the one
// that a software HCA names as its parent; else, for an HCA whose interface is
// another device (eRDMA), the one whose hardware address made the node GUID.
func (d *discovery) findNetdev(p *Port, h *HCA, parent, soft string) {
	if !d.isHere(p.Netdev, h, parent) {
		p.Netdev = ""
	}
	if p.Netdev == "" {
		p.Netdev = d.netdevOfDevice(parent, p.Number)
	}
	if p.Netdev == "" {
		p.Netdev = soft
	}
	if p.Netdev == "" && p.LinkLayer == LinkEthernet && h.NodeGUID != 0 {
		if n := d.netdevByGUID(h.NodeGUID); n != nil {
			p.Netdev = n.name
		}
	}
}

// isHere reports whether the interface of that name is the one that a GID of h
// names. The kernel prints the name alone, and an interface that was moved into
// a container is not on this host; worse, the host may have another one of that
// name. So an interface on hardware must be on that of the HCA, on another
// function of its PCI slot (pvrdma, the second port of mlx5), or have the address
// that made the node GUID. Bonds, VLANs and the like are taken as they are.
func (d *discovery) isHere(name string, h *HCA, parent string) bool {
	n := d.netdevs.byName[name]
	switch {
	case n == nil:
		return false
	case n.device == "" || h.Function == Virtual:
		return true
	case n.device == parent || strings.HasPrefix(n.device, parent+"/"):
		return true
	}
	a, b := locate(n.device).slot(), locate(parent).slot()
	return a != "" && a == b || h.NodeGUID != 0 && d.netdevByGUID(h.NodeGUID) == n
}

// netdevOfDevice picks the interface of a device for a port: dev_port counts
// from 0 (Documentation/ABI/testing/sysfs-class-net), ports from 1.
func (d *discovery) netdevOfDevice(parent string, port int) string {
	for _, n := range d.interfacesOf(parent) {
		if n.devPort == port-1 && !n.representor {
			return n.name
		}
	}
	return ""
}

// markRepresentors finds the ports that stand for functions of an embedded
// switch: those with a representor as interface, and, of an HCA with several
// ports on a device with representors, those without any. In switchdev mode such
// a port has no GIDs, and only netlink tells which representor is its own.
func (d *discovery) markRepresentors(ports []Port, parent string) {
	all := d.interfacesOf(parent)
	switchdev := slices.ContainsFunc(all, func(n *netdev) bool { return n.representor })
	if !switchdev {
		return
	}
	for i := range ports {
		p := &ports[i]
		n := d.netdevs.byName[p.Netdev]
		p.Representor = n == nil && len(ports) > 1 || n != nil && n.representor
	}
}

// netdevByGUID finds the interface whose Ethernet address, extended to 64 bits,
// is the GUID (drivers make node GUIDs with addrconf_addr_eui48). One on hardware
// comes first, since a VLAN has the address of the interface below it.
func (d *discovery) netdevByGUID(guid GUID) *netdev {
	if d.netdevs.byGUID == nil {
		d.netdevs.byGUID = map[GUID]*netdev{}
		for _, name := range slices.Sorted(maps.Keys(d.netdevs.byName)) {
			n := d.netdevs.byName[name]
			g, ok := eui64(d.optional(path.Join(n.dir, "address")))
			if first := d.netdevs.byGUID[g]; ok && (first == nil || first.device == "" && n.device != "") {
				d.netdevs.byGUID[g] = n
			}
		}
	}
	return d.netdevs.byGUID[guid]
}

// eui64 extends an Ethernet address to a modified EUI-64 (RFC 4291, appendix A).
func eui64(mac string) (GUID, bool) {
	digits := strings.ReplaceAll(mac, ":", "")
	v, err := strconv.ParseUint(digits, 16, 48)
	if err != nil || len(mac) != 17 || len(digits) != 12 || v == 0 {
		return 0, false
	}
	upper, lower := v>>24, v&0xffffff
	return GUID((upper^0x020000)<<40 | 0xfffe<<24 | lower), true
}
