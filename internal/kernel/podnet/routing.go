package podnet

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A pod with several interfaces in one network, or with a route to one destination over several of them, needs more
// than the main routing table: the kernel chooses the interface there by the destination alone. So packets from rail 1
// would leave by rail 0, and the ARP reply for the address of rail 1 might come from rail 0. Each interface therefore
// gets a routing table of its own, and a rule for each of its addresses: what the address sends is looked up there
// first.

const (
	// firstTable plus the index of an interface in the pod is the number of its table. It is far from the numbers that
	// people and CNI plugins use (sbr: 100 and up).
	firstTable = 1_000_000
	// rulePriority is before the main table (32766), and before rules without a priority that exist already.
	rulePriority = 30_000
)

// multihomed are the settings of an interface that is not the only one in its network. The numbers are IPV4_DEVCONF_*
// of include/uapi/linux/ip.h minus one (see [Original.IPv4]). The kernel's documentation is networking/ip-sysctl.rst.
var multihomed = map[int]uint32{
	7:  2, // rp_filter: accept a packet if any interface reaches its source
	17: 2, // arp_announce: ask with the address that fits the destination
	18: 1, // arp_ignore: answer for the addresses of this interface only
}

// Route is a route through the interface. Gateway is invalid for destinations on the link.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

func (r Route) netlink(link netlink.Link) *netlink.Route {
	nr := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(r.Destination)}
	if r.Gateway.IsValid() {
		nr.Gw = r.Gateway.AsSlice()
	} else {
		nr.Scope = netlink.SCOPE_LINK
	}
	return nr
}

// route routes what the addresses of the interface send, and what the pod sends to its destinations. It is idempotent.
func (w *Want) route(link netlink.Link, owner string) error {
	if err := setIPv4Conf(link, maps.All(multihomed)); err != nil {
		return fmt.Errorf("set arp_ignore, arp_announce and rp_filter: %w", err)
	}
	for _, r := range w.table() {
		to := r.netlink(link)
		to.Table = tableOf(link)
		if err := netlink.RouteReplace(to); err != nil {
			return fmt.Errorf("add route to %s to the interface's own table: %w", r.Destination, r.unreached(err))
		}
	}
	for _, a := range w.Addresses {
		if err := netlink.RuleAdd(ruleFrom(a.Addr(), link)); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("add a rule for packets from %s: %w", a.Addr(), err)
		}
	}
	for _, r := range w.Routes {
		if err := r.add(link, owner); err != nil {
			return fmt.Errorf("add route to %s: %w", r.Destination, err)
		}
	}
	return nil
}

// unreached adds the gateway to the error that the kernel has for one that is in no network of the interface.
func (r Route) unreached(err error) error {
	if r.Gateway.IsValid() && (errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH)) {
		return fmt.Errorf("its gateway %s is in no network of the interface's addresses: %w", r.Gateway, err)
	}
	return err
}

// table returns the routes of the interface's own table. Those on the link come first, because the kernel accepts a
// gateway only if the table has a route to it.
func (w *Want) table() (onLink []Route) {
	var others []Route
	for _, a := range w.Addresses {
		onLink = append(onLink, Route{Destination: a.Masked()})
	}
	for _, g := range w.Gateways {
		others = append(others, Route{Destination: netip.PrefixFrom(g, 0).Masked(), Gateway: g})
	}
	for _, r := range w.Routes {
		if r.Gateway.IsValid() {
			others = append(others, r)
		} else {
			onLink = append(onLink, r)
		}
	}
	return append(onLink, others...)
}

// errRouted is the error for a destination to which the pod has a route that is not the driver's.
var errRouted = errors.New("the pod has a route there already")

// add adds the route to the pod's main table, unless it exists. It must not replace another route, which may be the
// pod's route to the cluster. If another interface of the driver has a route to the same destination, that one stays
// preferred: the new one gets a worse metric. The driver's interfaces are known by the owner in their aliases.
func (r Route) add(link netlink.Link, owner string) error {
	nr := r.netlink(link)
	err := netlink.RouteAdd(nr)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	same := &netlink.Route{Dst: nr.Dst, Table: unix.RT_TABLE_MAIN}
	routes, err := listRoutes(familyOf(r.Destination.Addr()), same, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	for _, other := range routes {
		if other.LinkIndex == nr.LinkIndex {
			return nil
		}
		by, err := linkByIndex(other.LinkIndex)
		if err != nil || !strings.HasPrefix(by.Attrs().Alias, owner+"/") {
			return errRouted
		}
	}
	nr.Priority = tableOf(link) // as a metric: one of its own, and worse than any other
	return netlink.RouteAdd(nr)
}

// tableOf returns the number of the routing table of an interface.
func tableOf(link netlink.Link) int { return firstTable + link.Attrs().Index }

func ruleFrom(a netip.Addr, link netlink.Link) *netlink.Rule {
	rule := netlink.NewRule()
	rule.Family, rule.Priority = familyOf(a), rulePriority
	rule.Src, rule.Table = ipNet(netip.PrefixFrom(a, a.BitLen())), tableOf(link)
	return rule
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// removeRules removes the rules of the interface's addresses, each by its exact value. Its routes end with it.
func (w *Want) removeRules(link netlink.Link) error {
	for _, a := range w.Addresses {
		if err := netlink.RuleDel(ruleFrom(a.Addr(), link)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove its rule for packets from %s: %w", a.Addr(), err)
		}
	}
	return nil
}
