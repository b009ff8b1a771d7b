package podnet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
)

// The modes, which are the words of the API.
const (
	Move    = "move"
	Macvlan = "macvlan"
	Ipvlan  = "ipvlan"
)

// ErrNoInterface is in the error if no interface of the host has the name.
var ErrNoInterface = errors.New("the host has none of that name now")

// ErrUsed is in the error for an interface that the host needs.
var ErrUsed = errors.New("the host uses it")

// Host attaches interfaces of the host's network namespace.
type Host struct {
	own *rdmanetns.Namespace
	// owner and a slash begin the alias of every interface of the same driver.
	owner string
	// nodeIPs are the addresses of the node in the cluster.
	nodeIPs []netip.Addr
}

// NewHost returns the Host for the namespace of this process, which must be the host's. The caller begins each
// [Want.Alias] with the owner and a slash.
func NewHost(owner string, nodeIPs []netip.Addr) (*Host, error) {
	own, err := rdmanetns.Own()
	if err != nil {
		return nil, err
	}
	return On(own, owner, nodeIPs), nil
}

// On returns the Host for any namespace.
func On(own *rdmanetns.Namespace, owner string, nodeIPs []netip.Addr) *Host {
	return &Host{own: own, owner: owner, nodeIPs: nodeIPs}
}

// Usable returns why an interface of the host cannot be attached to a pod in a mode, nil if it can. pci is its expected
// PCI function, "" if unknown. on is the name of the interface below a new one: the interface itself, its bond, or
// the interface of a VLAN. vlan is 0 for none.
func (h *Host) Usable(name, pci, mode string, vlan int) (on string, err error) {
	err = h.own.Do(func() error {
		link, _, err := h.findUsable(name, pci, mode)
		if err != nil {
			return err
		}
		on = link.Attrs().Name
		if mode == Move {
			return nil
		}
		links, err := allLinks()
		switch {
		case err != nil:
		case vlan != 0:
			on, err = onVLAN(links, link, mode, vlan)
		default:
			err = checkKind(links, link.Attrs().Index, mode)
		}
		if err != nil {
			return fmt.Errorf("network interface %q: %w", on, err)
		}
		return nil
	})
	return on, err
}

// findUsable finds the interface to move, and the kernel's message about it, or the interface below a new one.
func (h *Host) findUsable(name, pci, mode string) (link netlink.Link, m *message, err error) {
	link, err = linkByName(name)
	if errors.Is(err, errNoLink) {
		err = ErrNoInterface
	}
	if err == nil {
		err = fits(link, pci)
	}
	switch {
	case err != nil:
	case mode == Move:
		m, err = h.movable(link)
	default:
		link, err = parentOf(link, pci)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("network interface %q: %w", name, err)
	}
	return link, m, nil
}

// movable returns why an interface cannot be moved: the host needs it, or could not restore it.
func (h *Host) movable(link netlink.Link) (*message, error) {
	if err := checkStandalone(link); err != nil {
		return nil, err
	}
	if link.Type() == kindBond {
		return nil, fmt.Errorf("%w: it is a bond: use network.mode macvlan or ipvlan", ErrUsed)
	}
	links, err := allLinks()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	if err := checkIdentity(link, links); err != nil {
		return nil, err
	}
	if err := h.unused(link, links); err != nil {
		return nil, err
	}
	m, err := readMessage(link)
	if err != nil {
		return nil, err
	}
	if n, err := h.vfsOf(link); n > 0 || err != nil {
		return nil, cmp.Or(err, HasVFs(n))
	}
	programs, err := programsOf(link)
	if err == nil && programs > 0 {
		err = fmt.Errorf("%w: it has %d eBPF programs (XDP or tcx)", ErrUsed, programs)
	}
	return &m, err
}

// vfsOf returns the number of virtual functions of an interface's device, by sysfs. rtnetlink sends it only with the
// settings of each function, which the kernel cannot send for more than about 220.
func (h *Host) vfsOf(link netlink.Link) (n int, err error) {
	err = h.own.Sysfs(func(sys fs.FS) (err error) { n, err = numVFs(sys, link.Attrs().Name); return err })
	return n, err
}

func numVFs(sys fs.FS, name string) (int, error) {
	text, err := fs.ReadFile(sys, "class/net/"+name+"/device/sriov_numvfs")
	if errors.Is(err, fs.ErrNotExist) { // no physical function
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read how many virtual functions its device has: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// HasVFs returns the error for an interface whose device has n virtual functions.
func HasVFs(n int) error {
	return fmt.Errorf("%w: its device has %d virtual functions, and a pod could change their settings: use "+
		"network.mode macvlan, or the functions", ErrUsed, n)
}

// fits returns why an interface does not belong to the HCA.
func fits(link netlink.Link, pci string) error {
	a := link.Attrs()
	if pci == "" || a.ParentDevBus != "pci" || a.ParentDev == pci {
		return nil
	}
	return fmt.Errorf("it is of PCI function %s, and the HCA is %s: only an interface of the same function is attached",
		a.ParentDev, pci)
}

// unused returns why the host needs an interface.
func (h *Host) unused(link netlink.Link, links []netlink.Link) error {
	index := link.Attrs().Index
	if err := withoutRoutes(index); err != nil {
		return err
	}
	addresses, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && slices.Contains(h.nodeIPs, ip.Unmap()) {
			return fmt.Errorf("%w: it has the node's address %s", ErrUsed, ip.Unmap())
		}
	}
	for _, l := range links {
		if isOnTop(l, index) {
			return fmt.Errorf("%w: %s %s is on top of it", ErrUsed, l.Type(), l.Attrs().Name)
		}
	}
	return nil
}

// withoutRoutes returns the route for which the host needs an interface. It keeps no routes: a router has a million.
func withoutRoutes(index int) error {
	_, err := whole(func() (none []netlink.Route, err error) {
		var used error
		err = netlink.RouteListFilteredIter(netlink.FAMILY_ALL, &netlink.Route{}, netlink.RT_FILTER_TABLE, // of all tables
			func(r netlink.Route) bool { used = usedBy(r, index); return used == nil })
		if err != nil && used == nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		return nil, used
	})
	return err
}

func usedBy(r netlink.Route, index int) error {
	switch one := slices.ContainsFunc(r.MultiPath, func(n *netlink.NexthopInfo) bool { return n.LinkIndex == index }); {
	case r.Table == unix.RT_TABLE_MAIN && isDefault(r) && (one || r.LinkIndex == index):
		return fmt.Errorf("%w: it has the default route", ErrUsed)
	case one:
		return fmt.Errorf("%w: it is one of several interfaces of the route to %s", ErrUsed, r.Dst)
	}
	return nil
}

// listRoutes returns the routes that fit a filter, and keeps no others.
func listRoutes(family int, filter *netlink.Route, mask uint64) ([]netlink.Route, error) {
	return whole(func() (fit []netlink.Route, err error) {
		err = netlink.RouteListFilteredIter(family, filter, mask,
			func(r netlink.Route) bool { fit = append(fit, r); return true })
		return fit, err
	})
}

// isOnTop reports whether an interface of the thread's namespace is on top of another one there. The ends of a veth are
// not: each names the other one in the same field.
func isOnTop(l netlink.Link, index int) bool {
	a := l.Attrs()
	return a.ParentIndex == index && a.Index != index && a.NetNsID < 0 && l.Type() != kindVeth
}

// whole reads a list again if it changed while the kernel sent it.
func whole[T any](list func() ([]T, error)) (all []T, err error) {
	const tries = 5
	for range tries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

func isDefault(r netlink.Route) bool {
	if r.Dst == nil {
		return true
	}
	ones, _ := r.Dst.Mask.Size()
	return ones == 0 && r.Dst.IP.IsUnspecified()
}

func nameOf(index int) string {
	link, err := linkByIndex(index)
	if err != nil {
		return fmt.Sprintf("interface %d", index)
	}
	return link.Attrs().Name
}
