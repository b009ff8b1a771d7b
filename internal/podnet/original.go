package podnet

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
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

	MAC       string   `json:"mac,omitempty"`
	Alias     string   `json:"alias,omitempty"`
	MTU       int      `json:"mtu,omitempty"`
	Up        bool     `json:"up,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Routes    []route  `json:"routes,omitempty"`
}

// route is a route that somebody has set.
type route struct {
	To       string `json:"to,omitempty"`
	Via      string `json:"via,omitempty"`
	Source   string `json:"source,omitempty"`
	Table    int    `json:"table,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Scope    int    `json:"scope,omitempty"`
	Protocol int    `json:"protocol,omitempty"`
}

// Inspect returns what an interface of the host is like, or why it cannot be attached.
func (h *Host) Inspect(name, pci, mode string) (o Original, err error) {
	err = h.own.Do(func() error {
		link, err := h.look(name, pci, mode)
		if err == nil {
			o, err = original(link)
		}
		return err
	})
	return o, err
}

func original(link netlink.Link) (Original, error) {
	a := link.Attrs()
	o := Original{
		Name: a.Name, Index: a.Index, Device: a.ParentDev, MAC: a.HardwareAddr.String(),
		Alias: a.Alias, MTU: a.MTU, Up: a.Flags&net.FlagUp != 0,
	}
	if len(a.PermHWAddr) > 0 {
		o.Permanent = a.PermHWAddr.String()
	}
	addresses, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return o, fmt.Errorf("list addresses of %q: %w", a.Name, err)
	}
	for _, addr := range addresses {
		// The kernel makes the others again.
		if addr.Flags&unix.IFA_F_PERMANENT != 0 && !addr.IP.IsLinkLocalUnicast() {
			o.Addresses = append(o.Addresses, addr.IPNet.String())
		}
	}
	routes, err := whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: a.Index}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return o, fmt.Errorf("list routes of %q: %w", a.Name, err)
	}
	for _, r := range routes {
		if r.Protocol != unix.RTPROT_KERNEL && r.Protocol != unix.RTPROT_RA {
			o.Routes = append(o.Routes, routeOf(r))
		}
	}
	return o, nil
}

func routeOf(r netlink.Route) route {
	out := route{Table: r.Table, Priority: r.Priority, Scope: int(r.Scope), Protocol: int(r.Protocol)}
	if r.Dst != nil {
		out.To = r.Dst.String()
	}
	if r.Gw != nil {
		out.Via = r.Gw.String()
	}
	if r.Src != nil {
		out.Source = r.Src.String()
	}
	return out
}

// onto is the route on an interface.
func (r route) onto(link netlink.Link) (*netlink.Route, error) {
	out := &netlink.Route{
		LinkIndex: link.Attrs().Index, Gw: net.ParseIP(r.Via), Src: net.ParseIP(r.Source), Table: r.Table, Priority: r.Priority,
		Scope: netlink.Scope(r.Scope), Protocol: netlink.RouteProtocol(r.Protocol),
	}
	if r.To == "" {
		return out, nil
	}
	var err error
	_, out.Dst, err = net.ParseCIDR(r.To)
	return out, err
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
		link := o.find(links, alias)
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

// find finds the interface among others, nil if it is not there.
func (o *Original) find(links []netlink.Link, alias string) netlink.Link {
	for _, l := range links {
		if l.Type() != "macvlan" && isOurs(l, alias) {
			return l
		}
	}
	for _, l := range links {
		if o.is(l.Attrs()) {
			return l
		}
	}
	return nil
}

// is reports whether an interface is the one, whatever a pod has made of it.
func (o *Original) is(a *netlink.LinkAttrs) bool {
	if o.Device != "" {
		return a.ParentDev == o.Device && (o.Permanent == "" || a.PermHWAddr.String() == o.Permanent)
	}
	return a.Name == o.Name && a.HardwareAddr.String() == o.MAC || a.Name == o.transit()
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
		do("set it down", netlink.LinkSetDown(link))
		do("name it "+o.Name, netlink.LinkSetName(link, o.Name))
	}
	if mac, err := net.ParseMAC(o.MAC); err == nil && a.HardwareAddr.String() != o.MAC {
		do("set its hardware address", netlink.LinkSetHardwareAddr(link, mac))
	}
	if a.MTU != o.MTU {
		do("set its MTU", netlink.LinkSetMTU(link, o.MTU))
	}
	if o.Up {
		do("set it up", netlink.LinkSetUp(link))
	}
	for _, s := range o.Addresses {
		do("add address "+s, addAddress(link, s))
	}
	for _, r := range o.Routes {
		if nr, err := r.onto(link); err != nil {
			do("read route "+r.To, err)
		} else if err := netlink.RouteReplace(nr); o.Up {
			do("add route "+r.To, err)
		}
	}
	if len(errs) == 0 { // it is found by that until all is done
		do("set its alias", netlink.LinkSetAlias(link, o.Alias))
	}
	return errors.Join(errs...)
}

// addAddress adds an address at once: there is nobody in the namespace who would wait until
// the kernel has found that no other host has it.
func addAddress(link netlink.Link, s string) error {
	addr, err := netlink.ParseAddr(s)
	if err != nil {
		return err
	}
	if addr.IP.To4() == nil {
		addr.Flags = unix.IFA_F_NODAD
	}
	return netlink.AddrReplace(link, addr)
}
