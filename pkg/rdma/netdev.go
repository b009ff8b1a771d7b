package rdma

import (
	"path"
	"strconv"
	"strings"
)

// netdevs indexes the network interfaces of a host.
type netdevs struct {
	byDevice map[string][]netdev // by the directory of the device below them
	all      []netdev
	byGUID   map[GUID]string // by hardware address, made when first asked for
}

// netdev is one entry of /sys/class/net.
type netdev struct {
	name, dir string
}

// readNetdevs lists the interfaces and the devices they belong to. It reads one
// link for each; their attributes are read when an HCA asks for them.
func (d *discovery) readNetdevs() netdevs {
	index := netdevs{byDevice: map[string][]netdev{}}
	for _, name := range d.list(classNet) {
		real, err := d.realpath(path.Join(classNet, name))
		if err != nil {
			continue // gone since it was listed, or a plain file such as bonding_masters
		}
		n := netdev{name: name, dir: real}
		index.all = append(index.all, n)
		if parent, ok := strings.CutSuffix(real, "/net/"+name); ok && strings.HasPrefix(real, "devices/") {
			index.byDevice[parent] = append(index.byDevice[parent], n)
		}
	}
	return index
}

// findNetdev gives a port its interface: the one of GID 0 where the kernel says
// it; else the interface of the same device whose dev_port fits; else the one
// that a software HCA names as its parent; else, for an HCA whose interface is
// another device (eRDMA), the one whose hardware address made the node GUID.
func (d *discovery) findNetdev(p *Port, h *HCA, parent, soft string) {
	if p.Netdev == "" {
		p.Netdev = d.netdevOfDevice(parent, p.Number)
	}
	if p.Netdev == "" {
		p.Netdev = soft
	}
	if p.Netdev == "" && p.LinkLayer == LinkEthernet && h.NodeGUID != 0 {
		p.Netdev = d.netdevByGUID(h.NodeGUID)
	}
	for _, n := range d.netdevs.byDevice[parent] {
		if n.name == p.Netdev {
			p.Representor = isRepresentor(d.optional(path.Join(n.dir, "phys_port_name")))
		}
	}
}

// netdevOfDevice picks the interface of a device for a port: dev_port counts
// from 0 (Documentation/ABI/testing/sysfs-class-net), ports from 1.
func (d *discovery) netdevOfDevice(parent string, port int) string {
	for _, n := range d.netdevs.byDevice[parent] {
		devPort, err := strconv.Atoi(d.optional(path.Join(n.dir, "dev_port")))
		if err != nil || devPort != port-1 {
			continue
		}
		if isRepresentor(d.optional(path.Join(n.dir, "phys_port_name"))) {
			continue
		}
		return n.name
	}
	return ""
}

// netdevByGUID finds the interface whose Ethernet address, extended to 64 bits,
// is the GUID (drivers make node GUIDs with addrconf_addr_eui48).
func (d *discovery) netdevByGUID(guid GUID) string {
	if d.netdevs.byGUID == nil {
		d.netdevs.byGUID = map[GUID]string{}
		for _, n := range d.netdevs.all {
			if g, ok := eui64(d.optional(path.Join(n.dir, "address"))); ok {
				d.netdevs.byGUID[g] = n.name
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
