package rdma

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// netdevTable holds the network interfaces of a host. Its methods named, of, isSwitch and withGUID lock it,
// so several goroutines can read HCAs at once.
type netdevTable struct {
	sys      fs.ReadLinkFS
	whole    bool // it was just listed, so an absent interface does not exist
	mu       sync.Mutex
	byName   map[string]*netdev
	byDevice map[string][]*netdev // by the directory of the device below them
	byGUID   map[GUID][]*netdev   // by hardware address, nil until the first withGUID
	problems []Problem
}

// netdev is one entry of /sys/class/net. The table reads its attributes once, and only
// for the interfaces of a device that carries an HCA.
type netdev struct {
	name, dir   string
	device      string // the directory of the device below it, "" for a virtual one
	guid        GUID   // made from the hardware address, 0 while byGUID is nil
	read        bool
	devPort     int  // dev_port, -1 if unknown
	representor bool // phys_port_name
}

// listNetdevs lists the interfaces and their devices. It reads one link per interface.
func listNetdevs(sys fs.ReadLinkFS) *netdevTable {
	t := &netdevTable{sys: sys, whole: true, byName: map[string]*netdev{}, byDevice: map[string][]*netdev{}}
	r := &reader{sys: sys}
	for _, name := range r.list(classNet) {
		t.add(name)
	}
	t.problems = r.problems
	return t
}

// add reads the link of an interface and adds it to the table. It returns nil if there is no
// such interface.
func (t *netdevTable) add(name string) *netdev {
	if !isName(name) {
		return nil // the name came from a GID
	}
	r := &reader{sys: t.sys}
	real, err := r.realpath(path.Join(classNet, name))
	if err != nil {
		return nil // removed since it was listed
	}
	n := &netdev{name: name, dir: real}
	t.byName[name] = n
	device, ok := strings.CutSuffix(real, "/net/"+name)
	if ok && strings.HasPrefix(device, "devices/") && device != "devices/virtual" {
		n.device = device
		t.byDevice[device] = append(t.byDevice[device], n)
		slices.SortFunc(t.byDevice[device], func(a, b *netdev) int { return strings.Compare(a.name, b.name) })
	}
	if t.byGUID != nil {
		t.addAddress(n)
	}
	return n
}

// refresh reads the link of an interface again. It returns the entry before and after,
// nil where there was none.
func (t *netdevTable) refresh(name string) (before, after *netdev) {
	if before = t.byName[name]; before != nil {
		delete(t.byName, name)
		remove(t.byDevice, before.device, before)
		remove(t.byGUID, before.guid, before)
	}
	return before, t.add(name)
}

// remove deletes an entry from an index, if present.
func remove[K, V comparable](index map[K][]V, key K, entry V) {
	rest := slices.DeleteFunc(index[key], func(other V) bool { return other == entry })
	if len(rest) > 0 {
		index[key] = rest
	} else {
		delete(index, key)
	}
}

// named returns the interface with that name, nil if there is none. Changes need
// not name virtual interfaces, so the table reads their links again.
func (t *netdevTable) named(name string) *netdev {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byName[name]
	if name == "" || t.whole || n != nil && n.device != "" {
		return n
	}
	_, n = t.refresh(name)
	return n
}

// netdevsOf returns the interfaces of a device with their attributes.
func (t *netdevTable) netdevsOf(device string) []*netdev {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.byDevice[device]
	r := &reader{sys: t.sys}
	for _, n := range all {
		if n.read {
			continue
		}
		n.read, n.devPort = true, -1
		portName := r.optional(n.dir + "/phys_port_name")
		n.representor = representor.MatchString(portName) ||
			legacyRepresentor.MatchString(portName) && n.isOnSwitch(t.sys)
		if port, err := strconv.Atoi(r.optional(n.dir + "/dev_port")); err == nil {
			n.devPort = port
		}
	}
	return all
}

// isOnSwitch reports whether an interface is a port of an embedded switch. Ports of mlx5 in
// switchdev mode, including the uplink, have the ID of their switch. Reading it fails otherwise.
func (n *netdev) isOnSwitch(sys fs.ReadLinkFS) bool {
	return (&reader{sys: sys}).optional(n.dir+"/phys_switch_id") != ""
}

// isSwitch reports whether a device has an embedded switch, so that one of its interfaces is a port of it.
func (t *netdevTable) isSwitch(device string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.byDevice[device], func(n *netdev) bool { return n.isOnSwitch(t.sys) })
}

// addAddress indexes an interface by its hardware address.
func (t *netdevTable) addAddress(n *netdev) {
	r := &reader{sys: t.sys}
	g, ok := eui64(r.optional(n.dir + "/address"))
	if !ok {
		return
	}
	n.guid = g
	t.byGUID[g] = append(t.byGUID[g], n)
}

// withGUID finds the interface whose Ethernet address, extended to 64 bits, is the
// GUID (drivers make node GUIDs with addrconf_addr_eui48). It prefers an interface on
// hardware, because a VLAN has the address of the interface below it. Among the others it
// takes the first name in order.
func (t *netdevTable) withGUID(guid GUID) *netdev {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byGUID == nil {
		t.byGUID = map[GUID][]*netdev{}
		for _, n := range t.byName {
			t.addAddress(n)
		}
	}
	var best *netdev
	for _, n := range t.byGUID[guid] {
		hardware := n.device != ""
		if best == nil || hardware && best.device == "" || hardware == (best.device != "") && n.name < best.name {
			best = n
		}
	}
	return best
}

// findNetdev sets the interface of a port. For a software HCA the answer of RDMA netlink counts alone: sysfs also has
// names of interfaces in pods. Otherwise findNetdev tries, in this order: the interface in GID 0; the interface of the
// same device whose dev_port matches; the parent interface of a software HCA. The last one is for an HCA whose interface
// is another device (eRDMA): the interface whose hardware address made the node GUID.
func (c *card) findNetdev(p *Port) {
	c.gidNetdevs = append(c.gidNetdevs, p.Netdev)
	if software := c.hca.Software; software != nil {
		if p.Netdev = software.Netdev; c.netdevs.named(p.Netdev) == nil {
			p.Netdev = "" // a claim has moved it into a pod
		}
		return
	}
	if !c.isHere(p.Netdev) {
		p.Netdev = ""
	}
	if p.Netdev == "" {
		p.Netdev = c.netdevOfDevice(p.Number)
	}
	if p.Netdev == "" {
		p.Netdev = c.soft
	}
	if p.Netdev == "" && p.LinkLayer == LinkEthernet && c.hca.NodeGUID != 0 {
		if n := c.netdevOfGUID(); n != nil {
			p.Netdev = n.name
		}
	}
}

// isHere reports whether the interface of that name is the one that a GID of the
// HCA names. The kernel prints only the name. The interface may have moved into a
// container, and the host may have another one with the same name. So an
// interface on hardware must be on the device of the HCA, on another function of
// its PCI slot (pvrdma, the second port of mlx5), or have the address that made the
// node GUID. Virtual interfaces such as bonds and VLANs are accepted by name.
func (c *card) isHere(name string) bool {
	n := c.netdevs.named(name)
	switch {
	case n == nil:
		return false
	case n.device == "" || c.hca.Function == Virtual:
		return true
	case n.device == c.parent || strings.HasPrefix(n.device, c.parent+"/"):
		return true
	}
	a, b := PlaceOf(n.device).slot(), PlaceOf(c.parent).slot()
	return a != "" && a == b || c.hca.NodeGUID != 0 && c.netdevOfGUID() == n
}

func (c *card) netdevOfGUID() *netdev {
	c.byGUID = true
	return c.netdevs.withGUID(c.hca.NodeGUID)
}

// netdevOfDevice returns the interface of a device for a port: dev_port counts
// from 0 (Documentation/ABI/testing/sysfs-class-net), ports from 1.
func (c *card) netdevOfDevice(port int) string {
	for _, n := range c.netdevs.netdevsOf(c.parent) {
		if n.devPort == port-1 && !n.representor {
			return n.name
		}
	}
	return ""
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
