package podnet

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The VLAN interface of a pod's interface is on the host, on top of the HCA's interface or its bond. The kernel allows
// one of a number there. So the driver uses an existing one of the site, and leaves it as it is. It makes a missing
// one, and removes it after the last pod (attach.Attacher). It knows its own by the alias.

// vlanAlias returns the alias of the VLAN interfaces that the driver made.
func (h *Host) vlanAlias() string { return h.owner + "/vlan" }

// vlanPrefix begins their names; the kernel adds a number. Until the alias is set, the prefix marks an interface as
// the driver's. A name made from that of the interface below and the VLAN may be too long, or may exist.
const vlanPrefix = transitPrefix + "vlan"

// lowerLink is the interface of the host below that of a pod.
type lowerLink struct {
	name       string
	index, mtu int
}

// lowerOf returns the interface of the host below that of a pod. It makes a missing VLAN interface. It is idempotent.
func (h *Host) lowerOf(o Original, w Want) (b lowerLink, err error) {
	if w.VLAN == 0 || w.Mode == Move {
		return lowerLink{o.Name, o.Index, o.MTU}, nil
	}
	err = h.own.Do(func() error {
		link, err := h.makeVLAN(o, w.VLAN)
		if err != nil {
			return fmt.Errorf("make the interface of VLAN %d on top of it: %w", w.VLAN, err)
		}
		b = lowerLink{link.Attrs().Name, link.Attrs().Index, link.Attrs().MTU}
		return nil
	})
	return b, err
}

// makeVLAN returns the VLAN interface on top of the host's interface. If the driver made it, or makes it now, it is up.
func (h *Host) makeVLAN(o Original, vlan int) (netlink.Link, error) {
	link, err := findVLAN(o.Index, vlan)
	if link == nil && err == nil {
		if err = addVLAN(o, vlan); err == nil || errors.Is(err, fs.ErrExist) { // the site may have made it just now
			link, err = findVLAN(o.Index, vlan)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case link == nil:
		return nil, fmt.Errorf("somebody has removed it: %w", fs.ErrNotExist)
	case !h.isOwnVLAN(link):
		return link, checkStandalone(link)
	}
	if link.Attrs().Alias != h.vlanAlias() {
		if err := netlink.LinkSetAlias(link, h.vlanAlias()); err != nil {
			return nil, fmt.Errorf("set its alias: %w", err)
		}
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		err = netlink.LinkSetUp(link)
	}
	if errors.Is(err, unix.ENETDOWN) {
		err = fmt.Errorf("%w: %s is down: ip link set %s up", err, o.Name, o.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("set it up: %w", err)
	}
	return link, nil
}

func addVLAN(o Original, vlan int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = vlanPrefix+"%d", o.Index
	err := netlink.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: vlan, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q})
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = fmt.Errorf("%w: the host's kernel has no VLANs: modprobe 8021q", err)
	}
	return err
}

// findVLAN returns the VLAN interface on top of an interface of the thread's namespace, nil if there is none.
func findVLAN(parent, vlan int) (netlink.Link, error) {
	links, err := allLinks()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	return vlanOf(links, parent, vlan), nil
}

func vlanOf(links []netlink.Link, parent, vlan int) netlink.Link {
	for _, l := range links {
		v, ok := l.(*netlink.Vlan)
		if ok && isOnTop(l, parent) && v.VlanId == vlan && v.VlanProtocol == netlink.VLAN_PROTOCOL_8021Q {
			return v
		}
	}
	return nil
}

// isOwnVLAN reports whether the driver made a VLAN interface. Pods cannot change what it looks at: it is on the host.
func (h *Host) isOwnVLAN(link netlink.Link) bool {
	a := link.Attrs()
	return a.Alias == h.vlanAlias() || a.Alias == "" && strings.HasPrefix(a.Name, vlanPrefix)
}

// RemoveVLAN removes the VLAN interface of a record's interface if the driver made it. The caller knows that no pod has
// an interface on top of it: the kernel would remove that one too. It is idempotent.
func (h *Host) RemoveVLAN(o Original, vlan int) error {
	err := h.own.Do(func() error {
		links, err := allLinks()
		if err != nil {
			return fmt.Errorf("list interfaces: %w", err)
		}
		link := vlanOf(links, o.Index, vlan)
		if link == nil || !h.isOwnVLAN(link) || hasUpper(links, link.Attrs().Index) {
			return nil
		}
		if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove the interface of VLAN %d from network interface %q of the host: %w", vlan, o.Name, err)
	}
	return nil
}

// hasUpper reports whether the host itself has put an interface on top of another one, or into a bond or bridge of it.
func hasUpper(links []netlink.Link, index int) bool {
	return slices.ContainsFunc(links, func(l netlink.Link) bool {
		return isOnTop(l, index) || l.Attrs().Index == index && l.Attrs().MasterIndex != 0
	})
}

// onVLAN returns the name of the VLAN interface on top of an interface, or words for one that is not there yet, and an
// error if no interface can be made on top of it.
func onVLAN(links []netlink.Link, parent netlink.Link, mode string, vlan int) (string, error) {
	link := vlanOf(links, parent.Attrs().Index, vlan)
	if link == nil {
		return fmt.Sprintf("%s, VLAN %d", parent.Attrs().Name, vlan), nil
	}
	err := checkStandalone(link)
	if err == nil {
		err = checkKind(links, link.Attrs().Index, mode)
	}
	return link.Attrs().Name, err
}
