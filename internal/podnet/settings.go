package podnet

import (
	"cmp"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// address is an address that an interface of the host was given for good.
type address struct {
	IP string `json:"ip"` // with the length of its network
	// Peer is the other end, where the address is of a link of two ends.
	Peer      string `json:"peer,omitempty"`
	Broadcast string `json:"broadcast,omitempty"`
	Scope     int    `json:"scope,omitempty"`
	// NoRoute says that the kernel has made no route to its network.
	NoRoute bool `json:"noRoute,omitempty"`
}

// addressesOf returns the addresses of an interface, but for those that the kernel makes again by
// itself.
func addressesOf(link netlink.Link) (out []address, err error) {
	all, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	for _, a := range all {
		if a.Flags&unix.IFA_F_PERMANENT == 0 || a.IP.IsLinkLocalUnicast() {
			continue
		}
		one := address{IP: a.IPNet.String(), Scope: a.Scope, NoRoute: a.Flags&unix.IFA_F_NOPREFIXROUTE != 0}
		if a.Peer != nil && !a.Peer.IP.Equal(a.IP) {
			one.Peer = a.Peer.String()
		}
		if a.Broadcast != nil {
			one.Broadcast = a.Broadcast.String()
		}
		out = append(out, one)
	}
	return out, err
}

// add gives the address to an interface.
func (a address) add(link netlink.Link) error {
	addr, err := netlink.ParseAddr(a.IP)
	if err != nil {
		return err
	}
	addr.Scope = a.Scope
	if a.NoRoute {
		addr.Flags |= unix.IFA_F_NOPREFIXROUTE
	}
	if a.Peer != "" {
		if addr.Peer, err = netlink.ParseIPNet(a.Peer); err != nil {
			return err
		}
	}
	if addr.IP.To4() != nil {
		addr.Broadcast = net.ParseIP(cmp.Or(a.Broadcast, "0.0.0.0")).To4() // else the library computes one
	}
	return addAddress(link, addr)
}

// addAddress adds an address at once: there is nobody in the namespace who would wait until
// the kernel has found that no other host has it.
func addAddress(link netlink.Link, addr *netlink.Addr) error {
	if addr.IP.To4() == nil {
		addr.Flags |= unix.IFA_F_NODAD
	}
	return netlink.AddrReplace(link, addr)
}

// route is a route that somebody has set.
type route struct {
	To     string `json:"to,omitempty"`
	Via    string `json:"via,omitempty"`
	OnLink bool   `json:"onLink,omitempty"`
	Source string `json:"source,omitempty"`

	Table    int `json:"table,omitempty"`
	Priority int `json:"priority,omitempty"`
	Scope    int `json:"scope,omitempty"`
	Protocol int `json:"protocol,omitempty"`
}

// routesOf returns the routes that lead through an interface alone, but for those that the kernel makes
// again by itself. Those without a gateway come first: they lead to the gateways of others.
func routesOf(link netlink.Link) (out []route, err error) {
	all, err := whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index},
			netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	})
	for _, r := range all {
		if r.Protocol != unix.RTPROT_KERNEL && r.Protocol != unix.RTPROT_RA {
			out = append(out, routeOf(r))
		}
	}
	slices.SortStableFunc(out, func(a, b route) int { return min(len(a.Via), 1) - min(len(b.Via), 1) })
	return out, err
}

func routeOf(r netlink.Route) route {
	out := route{OnLink: r.Flags&int(netlink.FLAG_ONLINK) != 0, Table: r.Table, Priority: r.Priority, Scope: int(r.Scope),
		Protocol: int(r.Protocol)}
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

// replace adds the route on an interface, or has it take the place of the same one.
func (r route) replace(link netlink.Link) error {
	out := &netlink.Route{
		LinkIndex: link.Attrs().Index, Gw: net.ParseIP(r.Via), Src: net.ParseIP(r.Source), Table: r.Table,
		Priority: r.Priority,
		Scope:    netlink.Scope(r.Scope), Protocol: netlink.RouteProtocol(r.Protocol),
	}
	if r.OnLink {
		out.SetFlag(netlink.FLAG_ONLINK)
	}
	if r.To != "" {
		var err error
		if _, out.Dst, err = net.ParseCIDR(r.To); err != nil {
			return err
		}
	}
	return netlink.RouteReplace(out)
}

// neighbour is a hardware address that somebody has set for an IP address.
type neighbour struct {
	IP  string `json:"ip"`
	MAC string `json:"mac"`
}

// neighboursOf returns the neighbours of an interface that stay.
func neighboursOf(link netlink.Link) (out []neighbour, err error) {
	all, err := whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL) })
	for _, n := range all {
		if n.State&netlink.NUD_PERMANENT != 0 && len(n.HardwareAddr) > 0 {
			out = append(out, neighbour{IP: n.IP.String(), MAC: n.HardwareAddr.String()})
		}
	}
	return out, err
}

// set sets the neighbour of an interface.
func (n neighbour) set(link netlink.Link) error {
	mac, err := net.ParseMAC(n.MAC)
	if err != nil {
		return err
	}
	return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: net.ParseIP(n.IP), HardwareAddr: mac})
}
