package podnet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/vishvananda/netlink"
)

// Original is what an interface was on the host: what makes it itself, and what it is given
// back.
type Original struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Device is the device of the bus that it is of, and Permanent the hardware address that
	// it was made with; empty for interfaces made by software.
	Device    string `json:"device,omitempty"`
	Permanent string `json:"permanent,omitempty"`

	MAC       string    `json:"mac,omitempty"`
	Alias     string    `json:"alias,omitempty"`
	MTU       int       `json:"mtu,omitempty"`
	Up        bool      `json:"up,omitempty"`
	Addresses []address `json:"addresses,omitempty"`
	Routes    []route   `json:"routes,omitempty"`

	Neighbours []neighbour `json:"neighbours,omitempty"`
	// IPv4 is its settings below /proc/sys/net/ipv4/conf, in the kernel's order.
	IPv4 []uint32 `json:"ipv4,omitempty"`
}

// Inspect returns what an interface of the host is like, or why it cannot be attached in that mode. Of
// one that stays on the host it tells what it is alone.
func (h *Host) Inspect(name, pci, mode string) (o Original, err error) {
	err = h.own.Do(func() error {
		link, err := h.look(name, pci, mode)
		if err != nil {
			return err
		}
		o = identity(link.Attrs())
		if mode == Move {
			err = o.readSettings(link)
		}
		return err
	})
	return o, err
}

// readSettings reads what the kernel takes from an interface on its way.
func (o *Original) readSettings(link netlink.Link) (err error) {
	if o.Addresses, err = addressesOf(link); err != nil {
		return fmt.Errorf("list addresses of %q: %w", o.Name, err)
	}
	if o.Routes, err = routesOf(link); err != nil {
		return fmt.Errorf("list routes of %q: %w", o.Name, err)
	}
	if o.Neighbours, err = neighboursOf(link); err != nil {
		return fmt.Errorf("list neighbours of %q: %w", o.Name, err)
	}
	if o.IPv4, err = ipv4ConfOf(link); err != nil {
		return fmt.Errorf("read IPv4 settings of %q: %w", o.Name, err)
	}
	return nil
}

func identity(a *netlink.LinkAttrs) Original {
	return Original{
		Name: a.Name, Index: a.Index, Device: a.ParentDev, Permanent: a.PermHWAddr.String(),
		MAC: a.HardwareAddr.String(), Alias: a.Alias, MTU: a.MTU, Up: a.Flags&net.FlagUp != 0,
	}
}

// ErrNotBack says that an interface is neither in the pod nor on the host. After the end of
// a namespace the kernel takes a while.
var ErrNotBack = errors.New("it has not come back to the host yet")

// Restore gives an interface that is on the host what it had there. It is found by its alias
// in the pod, or by what it is.
func (h *Host) Restore(o Original, alias string) error {
	err := h.own.Do(func() error {
		links, err := whole(netlink.LinkList)
		if err != nil {
			return err
		}
		link := o.find(links, alias, o.is)
		if link == nil {
			return ErrNotBack
		}
		return o.restore(link)
	})
	if err != nil {
		return fmt.Errorf("give network interface %q of the host back what it had: %w", o.Name, err)
	}
	return nil
}

// find finds the interface among others by its alias, or by what it is; nil if it is not there.
func (o *Original) find(links []netlink.Link, alias string, is func(*netlink.LinkAttrs) bool) netlink.Link {
	for _, l := range links {
		if l.Type() != "macvlan" && isOurs(l, alias) {
			return l
		}
	}
	for _, l := range links {
		if is(l.Attrs()) {
			return l
		}
	}
	return nil
}

// is reports whether an interface of the host is the one, whatever a pod has made of it.
func (o *Original) is(a *netlink.LinkAttrs) bool {
	return o.isInPod(a) || o.Device == "" && a.Name == o.Name && a.HardwareAddr.String() == o.MAC
}

// isInPod reports the same of an interface of a pod, whose own may be named as the host's are.
func (o *Original) isInPod(a *netlink.LinkAttrs) bool {
	switch {
	case o.Device == "":
		return a.Name == o.transit()
	case o.Permanent == "": // a function may have several
		return a.ParentDev == o.Device && a.HardwareAddr.String() == o.MAC
	default:
		return a.ParentDev == o.Device && a.PermHWAddr.String() == o.Permanent
	}
}

// isOurs reports whether an interface has the alias, be all done that it stands for or not.
func isOurs(l netlink.Link, alias string) bool {
	a := l.Attrs().Alias
	return a == alias || a == alias+unfinished
}

// unfinished follows the alias of an interface on its way.
const unfinished = "/unfinished"

// transit is its name on the way.
func (o *Original) transit() string { return transitPrefix + fmt.Sprint(o.Index) }

// transitPrefix is of names that nobody else gives, short enough for ten digits.
const transitPrefix = "_rdma"

// restore has the whole of it done whatever fails in between, so that as much as can be is as it was.
func (o *Original) restore(link netlink.Link) error {
	a := link.Attrs()
	var errs []error
	do := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if a.Name != o.Name {
		do("name it "+o.Name, rename(link, o.Name))
	}
	if mac, err := net.ParseMAC(o.MAC); err == nil && a.HardwareAddr.String() != o.MAC {
		do("set its hardware address", netlink.LinkSetHardwareAddr(link, mac))
	}
	if a.MTU != o.MTU {
		do("set its MTU", netlink.LinkSetMTU(link, o.MTU))
	}
	if o.IPv4 != nil {
		do("give it its IPv4 settings (sysctl net.ipv4.conf)", setIPv4Conf(link, o.IPv4))
	}
	if o.Up {
		do("set it up", netlink.LinkSetUp(link))
	}
	for _, has := range o.Addresses {
		do("add address "+has.IP, has.add(link))
	}
	for _, n := range o.Neighbours {
		do("add neighbour "+n.IP, n.set(link))
	}
	for _, r := range o.Routes {
		if err := r.replace(link); o.Up {
			do("add route to "+cmp.Or(r.To, "default"), err)
		}
	}
	if len(errs) == 0 { // it is found by that until all is done
		do("set its alias", netlink.LinkSetAlias(link, o.Alias))
	}
	return errors.Join(errs...)
}

// rename gives an interface another name, for which it has to be down. It stays up as long as somebody else
// has the name: who tries again and again would take it down as often.
func rename(link netlink.Link, name string) error {
	if _, err := netlink.LinkByName(name); !errors.As(err, &netlink.LinkNotFoundError{}) {
		return cmp.Or(err, fs.ErrExist)
	}
	if err := netlink.LinkSetDown(link); err != nil {
		return err
	}
	return netlink.LinkSetName(link, name)
}
