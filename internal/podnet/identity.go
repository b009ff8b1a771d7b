package podnet

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
)

// A pod with CAP_NET_ADMIN owns whatever a name, an alias or a hardware address says: it can give its own to the interface that it
// was given, and those of that one to an interface of its own. So an interface that was moved is known by what
// the kernel alone gives:
//
//   - One of hardware by its device on the bus and its permanent hardware address. No software can have a device of
//     the host, so another one is never taken for it.
//   - A veth, the stand-in for hardware in tests, by its other end, which is on the host.
//   - Other software has nothing of that kind, and is not moved.

// Kinds of interfaces, as netlink has them.
const (
	kindDevice  = "device" // of hardware, and of software that the kernel makes by itself
	kindVeth    = "veth"
	kindMacvlan = "macvlan"
)

var (
	errSoftware = errors.New("it is made by software, and a pod could put one of its own in its place: use network.mode macvlan")
	errNoDevice = errors.New("the kernel does not say of which device it is, as Linux does from 5.14 on for interfaces of hardware: use network.mode macvlan")
	errPeer     = errors.New("its other end is in another network namespace: use network.mode macvlan")
	errSiblings = errors.New("its device has other network interfaces, and the kernel knows no permanent hardware address of this one: use network.mode macvlan")
)

// known says why an interface of the host could not be known again after a pod had it. all are
// the interfaces of the host.
func known(link netlink.Link, all []netlink.Link) error {
	a := link.Attrs()
	switch {
	case link.Type() == kindVeth && (a.ParentIndex == 0 || a.NetNsID >= 0):
		return errPeer
	case link.Type() == kindVeth:
		return nil
	case link.Type() != kindDevice:
		return fmt.Errorf("%w (%s)", errSoftware, link.Type())
	case a.ParentDev == "":
		return errNoDevice
	case len(a.PermHWAddr) > 0:
		return nil
	}
	for _, l := range all {
		if b := l.Attrs(); b.Index != a.Index && b.ParentDev == a.ParentDev && b.ParentDevBus == a.ParentDevBus {
			return errSiblings
		}
	}
	return nil
}

// find finds the interface that was moved among all of a namespace, whatever a pod has made of it; nil if it is not
// there. host is the number of the host's namespace there, -1 in the host's own.
func (o *Original) find(links []netlink.Link, host int) netlink.Link {
	var found []netlink.Link
	for _, l := range links {
		if o.is(l, host) {
			found = append(found, l)
		}
	}
	for _, l := range found {
		if len(found) == 1 || l.Attrs().HardwareAddr.String() == o.MAC {
			return l
		}
	}
	return nil
}

// is reports whether an interface is the one, as far as the kernel tells. Without a permanent address several of one device may be.
func (o *Original) is(l netlink.Link, host int) bool {
	a := l.Attrs()
	switch {
	case o.Peer != 0:
		return l.Type() == kindVeth && a.ParentIndex == o.Peer && a.NetNsID == host
	case l.Type() != kindDevice || o.Device == "" || a.ParentDev != o.Device || a.ParentDevBus != o.Bus:
		return false
	default:
		return a.PermHWAddr.String() == o.Permanent
	}
}

// isOn reports whether an interface is a macvlan on the one of the host.
func (o *Original) isOn(l netlink.Link, host int) bool {
	a := l.Attrs()
	return l.Type() == kindMacvlan && a.ParentIndex == o.Index && a.NetNsID == host
}

// numberOf returns the number that a namespace has in the namespace of the thread. The kernel uses this number to say
// where the other ends of interfaces are. If the namespace has no number, no interface here has its other end there.
func numberOf(host *rdmanetns.Namespace) (int, error) {
	number, err := netlink.GetNetNsIdByFd(host.FD())
	if err != nil {
		return 0, fmt.Errorf("ask for the number of network namespace %q: %w", host, err)
	}
	if number < 0 {
		return unnumbered, nil
	}
	return number, nil
}

// unnumbered is the number of no namespace.
const unnumbered = -2

// there finds the interface in the thread's namespace, which is a pod's.
func (o *Original) there(host *rdmanetns.Namespace) (netlink.Link, []netlink.Link, error) {
	number := unnumbered
	if o.Peer != 0 { // no other is looked for by it
		var err error
		if number, err = numberOf(host); err != nil {
			return nil, nil, err
		}
	}
	links, err := whole(netlink.LinkList)
	if err != nil {
		return nil, nil, fmt.Errorf("list interfaces: %w", err)
	}
	return o.find(links, number), links, nil
}
