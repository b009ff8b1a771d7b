package podnet

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
)

// made are the modes in which the driver makes an interface on top of the host's. They are also the kinds of these
// interfaces, as netlink has them.
var made = []string{Macvlan, Ipvlan}

// parentOf returns the interface below a new one. For a slave of a bond, this is the bond: the kernel gives the packets
// of a slave to the bond alone, and the HCA of a bond (RoCE LAG) has the GIDs of the interfaces on top of the bond.
func parentOf(link netlink.Link, pci string) (netlink.Link, error) {
	if index := link.Attrs().MasterIndex; index != 0 {
		master, err := linkByIndex(index)
		if err != nil {
			return nil, fmt.Errorf("ask for the interface that it is a part of: %w", err)
		}
		if master.Type() == kindBond {
			link = master
		}
	}
	if err := checkStandalone(link); err != nil || link.Type() != kindBond || pci == "" {
		return link, err
	}
	links, err := allLinks()
	if err == nil {
		err = isBondOf(links, link.Attrs().Index, pci)
	}
	return link, err
}

// isBondOf returns an error if the slaves of a bond are interfaces of other PCI functions than the HCA.
func isBondOf(links []netlink.Link, bond int, pci string) (err error) {
	for _, l := range links {
		switch a := l.Attrs(); {
		case a.MasterIndex != bond || a.ParentDevBus != "pci":
		case a.ParentDev == pci:
			return nil
		default:
			err = fmt.Errorf("it is a bond of %s and others, and the HCA is PCI function %s: only a bond of the same "+
				"function's interface is used", a.Name, pci)
		}
	}
	return err
}

// checkStandalone returns an error for a bridge or switch, and for a part of one or of a bond.
func checkStandalone(link netlink.Link) error {
	if index := link.Attrs().MasterIndex; index != 0 {
		return fmt.Errorf("%w: it is a part of %s (a bond, bridge or switch)", ErrUsed, nameOf(index))
	}
	if kind := link.Type(); kind == "bridge" || kind == "openvswitch" {
		return fmt.Errorf("it is a %s, and no interface of an HCA", kind)
	}
	return nil
}

// stack makes an interface on top of the host's, directly in the pod. It uses the transit name, because the kernel
// requires that the name is free on the host too.
func (h *Host) stack(o Original, b lowerLink, mode string, pod *rdmanetns.Namespace) error {
	err := pod.Do(func() error { return new(Want).deleteLink(o.transit()) }) // left by an interrupted attempt
	if err != nil {
		return err
	}
	return h.own.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex, attrs.Namespace = o.transit(), b.index, netlink.NsFd(pod.FD())
		err := netlink.LinkAdd(newLink(mode, attrs))
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: %w", err, otherKind(b.index, mode))
		}
		if err != nil {
			return fmt.Errorf("make interface of type %s: %w", mode, err)
		}
		return nil
	})
}

// newLink returns an interface whose siblings on the same interface of the host reach it directly.
func newLink(mode string, attrs netlink.LinkAttrs) netlink.Link {
	if mode == Ipvlan {
		return &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2, Flag: netlink.IPVLAN_FLAG_BRIDGE}
	}
	return &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
}

// excluded are the kinds of interfaces that cannot be on top of the same interface as those of a mode: the kernel gives
// the packets of an interface to one receiver.
var excluded = map[string][]string{
	Macvlan: {Ipvlan, "ipvtap"},
	Ipvlan:  {Macvlan, "macvtap"},
}

// Excludes reports whether interfaces of two modes cannot be on top of one interface.
func Excludes(mode, other string) bool { return slices.Contains(excluded[mode], other) }

// OtherKind returns the error for an interface of a mode on top of one that has interfaces of another kind already.
func OtherKind(mode, other, who string) error {
	return fmt.Errorf("the kernel does not allow %s and %s on top of one interface, and %s has a %s there: "+
		"use network.mode %s, or end its user", mode, other, who, other, other)
}

// otherKind returns the error for an interface of a mode that the kernel refused because of others on top of the same
// one. Those of the thread's namespace can be named.
func otherKind(parent int, mode string) error {
	links, err := allLinks()
	if err != nil {
		return err
	}
	if err := checkKind(links, parent, mode); err != nil {
		return err
	}
	return OtherKind(mode, excluded[mode][0], "another network namespace, perhaps by a CNI plugin,")
}

// checkKind returns an error if one of the namespace's interfaces excludes those of a mode on top of the same one.
func checkKind(links []netlink.Link, parent int, mode string) error {
	for _, l := range links {
		if isOnTop(l, parent) && Excludes(mode, l.Type()) {
			return OtherKind(mode, l.Type(), "the host's "+l.Attrs().Name)
		}
	}
	return nil
}

// isOn reports whether an interface is one of a mode on top of the one of the host.
func (b lowerLink) isOn(l netlink.Link, mode string, host int) bool {
	a := l.Attrs()
	return l.Type() == mode && a.ParentIndex == b.index && a.NetNsID == host
}

// deleteLink deletes the made interface of a name if it has one of the aliases. Without aliases it deletes any made
// interface of the name, which must be a transit name. It removes the rules of the wanted addresses.
func (w *Want) deleteLink(name string, aliases ...string) error {
	link, err := linkByName(name)
	switch {
	case errors.Is(err, errNoLink):
		return nil
	case err != nil:
		return err
	case !slices.Contains(made, link.Type()) || len(aliases) > 0 && !slices.Contains(aliases, link.Attrs().Alias):
		return nil
	}
	if err := w.removeRules(link); err != nil {
		return err
	}
	return netlink.LinkDel(link)
}
