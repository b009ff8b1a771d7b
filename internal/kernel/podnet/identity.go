package podnet

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
)

// A pod with CAP_NET_ADMIN can change names, aliases and hardware addresses, and give them to other interfaces. So a
// moved interface is identified by properties that only the kernel sets:
//
//   - An interface of hardware by its device on the bus and its permanent hardware address. A virtual interface cannot
//     have a device of the host.
//   - A veth, which replaces hardware in tests, by its other end, which is on the host.
//   - Other virtual interfaces have no such property, so they are not moved.

// Kinds of interfaces, as netlink has them.
const (
	kindDevice = "device" // of hardware, and virtual interfaces that the kernel makes by itself
	kindVeth   = "veth"
	kindBond   = "bond"
)

var (
	errSoftware = errors.New("it is a virtual interface, which a pod could replace by its own: use network.mode macvlan")
	errNoDevice = errors.New("the kernel does not report its device (Linux does from 5.14 on): use network.mode macvlan")
	errPeer     = errors.New("its other end is in another network namespace: use network.mode macvlan")
	errSiblings = errors.New("its device has other network interfaces, and this one has no permanent hardware address: " +
		"use network.mode macvlan")
)

// checkIdentity returns why an interface of the host could not be identified in a pod, nil if it can. all are the
// interfaces of the host.
func checkIdentity(link netlink.Link, all []netlink.Link) error {
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

// find finds the moved interface among all interfaces of a namespace, nil if it is not there. host is the number of the
// host's namespace there, -1 in the host's own.
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

// is reports whether an interface has the identity. Without a permanent address, several of one device may have it.
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

// unnumbered is a number that no namespace has.
const unnumbered = -2

// findInPod finds the interface in the thread's namespace, which is a pod's, nil if it is not there.
func (o *Original) findInPod(host *rdmanetns.Namespace) (netlink.Link, error) {
	number := unnumbered
	if o.Peer != 0 { // only a veth needs the number
		var err error
		if number, err = numberOf(host); err != nil {
			return nil, err
		}
	}
	return o.here(number)
}

// here finds the interface in the thread's namespace, nil if it is not there. host is as for find. The kernel keeps the
// index of an interface that moves if the other namespace has that index free, so here looks there first: a pod may
// have many interfaces.
func (o *Original) here(host int) (netlink.Link, error) {
	if o.Peer != 0 || o.Permanent != "" { // otherwise several may have the identity
		link, err := linkByIndex(o.Index)
		if err == nil && o.is(link, host) {
			return link, nil
		}
		if err != nil && !errors.Is(err, errNoLink) {
			return nil, err
		}
	}
	links, err := whole(func() (mine []netlink.Link, err error) {
		err = eachLink(func(l netlink.Link) bool {
			if o.is(l, host) {
				mine = append(mine, l)
			}
			return len(mine) == 0 || o.Permanent == "" && o.Peer == 0
		})
		return mine, err
	})
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	return o.find(links, host), nil
}
