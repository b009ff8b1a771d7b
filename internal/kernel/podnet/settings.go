package podnet

import (
	"cmp"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// address is a permanent address of an interface of the host.
type address struct {
	IP string `json:"ip"` // with the prefix length
	// Peer is the other end of a point-to-point address.
	Peer      string `json:"peer,omitempty"`
	Broadcast string `json:"broadcast,omitempty"`
	Scope     int    `json:"scope,omitempty"`
	// NoRoute reports whether the kernel made no route to the address's network.
	NoRoute bool `json:"noRoute,omitempty"`
}

// addressesOf returns the permanent addresses of an interface, except the addresses that the kernel itself makes again.
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

// add adds the address to an interface. It is idempotent.
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
		addr.Broadcast = net.ParseIP(cmp.Or(a.Broadcast, "0.0.0.0")).To4() // otherwise the library computes one
	}
	return addAddress(link, addr)
}

// addAddress adds an address without waiting for duplicate address detection, because no process in the namespace would
// wait for it. It is idempotent.
func addAddress(link netlink.Link, addr *netlink.Addr) error {
	if addr.IP.To4() == nil {
		addr.Flags |= unix.IFA_F_NODAD
	}
	return netlink.AddrReplace(link, addr)
}

// route is a route that somebody has configured.
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

// routesOf returns the routes through an interface alone, except the routes that the kernel itself makes again. Routes
// without a gateway come first, because the gateways of other routes may need them.
func routesOf(link netlink.Link) (out []route, err error) {
	all, err := listRoutes(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index},
		netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
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

// replace adds the route to an interface, or replaces the same route. It is idempotent.
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

// neighbour is a permanent hardware address that somebody has configured for an IP address.
type neighbour struct {
	IP  string `json:"ip"`
	MAC string `json:"mac"`
}

// neighboursOf returns the permanent neighbours of an interface.
func neighboursOf(link netlink.Link) (out []neighbour, err error) {
	all, err := whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL) })
	for _, n := range all {
		if n.State&netlink.NUD_PERMANENT != 0 && len(n.HardwareAddr) > 0 {
			out = append(out, neighbour{IP: n.IP.String(), MAC: n.HardwareAddr.String()})
		}
	}
	return out, err
}

// set sets the neighbour on an interface. It is idempotent.
func (n neighbour) set(link netlink.Link) error {
	mac, err := net.ParseMAC(n.MAC)
	if err != nil {
		return err
	}
	return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: net.ParseIP(n.IP), HardwareAddr: mac})
}
