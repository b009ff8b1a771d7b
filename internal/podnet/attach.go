package podnet

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/rdma-dev/dra-driver-rdma/internal/rdmanetns"
)

// Want is an interface that a pod is to have.
type Want struct {
	Mode string
	// Name and Alias are its own in the pod. The alias is what it is known by.
	Name, Alias string
	// MTU is 0 for that of the host's interface.
	MTU       int
	Addresses []netip.Prefix
	Routes    []Route
}

// Route is a route through it; Gateway is not valid for what is on the link.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// State is what an interface is like in a pod.
type State struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac,omitempty"`
	MTU       int      `json:"mtu,omitempty"`
	Addresses []string `json:"addresses,omitempty"` // each with the length of its network
}

// ErrTaken says that the pod has another interface of the name.
var ErrTaken = errors.New("the pod has another interface of that name already: name another one in the claim (network.interface)")

// Attach brings an interface into the namespace of a path: the one that was inspected, or a
// macvlan on it. On an error the caller detaches it.
func (h *Host) Attach(netns string, o Original, w Want) (s State, err error) {
	pod, err := rdmanetns.Open(netns)
	if err != nil {
		return s, err
	}
	defer pod.Close()
	if pod.Same(h.own) {
		return s, fmt.Errorf("attach network interface %q: %q is the host's own network namespace", w.Name, netns)
	}
	there := false
	err = pod.Do(func() (err error) { there, err = w.isThere(o); return err })
	if err == nil && !there {
		if w.Mode == Move {
			err = h.send(o, w.Alias, pod)
		} else {
			err = h.stack(o, pod)
		}
	}
	if err == nil {
		err = pod.Do(func() (err error) { s, err = w.configure(o.transit()); return err })
	}
	if err != nil {
		return s, fmt.Errorf("attach network interface %q of the host to %q as %q (%s): %w", o.Name, netns, w.Name, w.Mode, err)
	}
	return s, nil
}

// isThere reports whether the thread's namespace has the interface, which may have been left
// with its name for the way.
func (w *Want) isThere(o Original) (bool, error) {
	link, err := netlink.LinkByName(w.Name)
	if errors.As(err, &netlink.LinkNotFoundError{}) && w.Mode == Move {
		link, err = netlink.LinkByName(o.transit())
	}
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}):
		return false, nil
	case err != nil:
		return false, err
	case !isOurs(link, w.Alias):
		return false, ErrTaken
	}
	return true, nil
}

// send moves the interface of the host under its name for the way. One that is named so
// already was left half way.
func (h *Host) send(o Original, alias string, pod *rdmanetns.Namespace) error {
	return h.own.Do(func() error {
		link, err := netlink.LinkByName(o.Name)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			link, err = netlink.LinkByName(o.transit())
		}
		if err != nil {
			return err
		}
		if !o.is(link.Attrs()) {
			return fmt.Errorf("the host's interface %q is another one by now", o.Name)
		}
		if err := netlink.LinkSetAlias(link, alias+unfinished); err != nil {
			return fmt.Errorf("set its alias: %w", err)
		}
		if err := netlink.LinkSetDown(link); err != nil {
			return fmt.Errorf("set it down: %w", err)
		}
		if err := netlink.LinkSetName(link, o.transit()); err != nil {
			return fmt.Errorf("name it %q for the way: %w", o.transit(), err)
		}
		if err := netlink.LinkSetNsFd(link, pod.FD()); err != nil {
			return fmt.Errorf("move it: %w", err)
		}
		return nil
	})
}

// stack makes a macvlan on the interface of the host, in the pod from its first moment, with
// the name for the way: the kernel looks for its name on the host, too.
func (h *Host) stack(o Original, pod *rdmanetns.Namespace) error {
	err := pod.Do(func() error { return deleteLink(o.transit()) }) // of somebody who died half way
	if err != nil {
		return err
	}
	return h.own.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex, attrs.Namespace = o.transit(), o.Index, netlink.NsFd(pod.FD())
		if err := netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}); err != nil {
			return fmt.Errorf("make a macvlan: %w", err)
		}
		return nil
	})
}

// configure makes the interface of the thread's namespace what is wanted.
func (w *Want) configure(transit string) (s State, err error) {
	link, err := netlink.LinkByName(w.Name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		link, err = netlink.LinkByName(transit)
	}
	if err != nil {
		return s, err
	}
	if link.Attrs().Name != w.Name {
		if err := netlink.LinkSetAlias(link, w.Alias+unfinished); err != nil {
			return s, fmt.Errorf("set its alias: %w", err)
		}
		if err := netlink.LinkSetName(link, w.Name); err != nil {
			return s, fmt.Errorf("name it: %w", err)
		}
	}
	if w.MTU != 0 && link.Attrs().MTU != w.MTU {
		if err := netlink.LinkSetMTU(link, w.MTU); err != nil {
			return s, fmt.Errorf("set its MTU to %d: %w", w.MTU, err)
		}
	}
	for _, a := range w.Addresses {
		if err := addAddress(link, &netlink.Addr{IPNet: ipNet(a)}); err != nil {
			return s, fmt.Errorf("add address %s: %w", a, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return s, fmt.Errorf("set it up: %w", err)
	}
	for _, r := range w.Routes {
		if err := r.add(link); err != nil {
			return s, fmt.Errorf("add route to %s: %w", r.Destination, err)
		}
	}
	if err := netlink.LinkSetAlias(link, w.Alias); err != nil { // last: by that the hook knows that all is done
		return s, fmt.Errorf("set its alias: %w", err)
	}
	return stateOf(w.Name)
}

// errRouted says that a route of somebody else leads there.
var errRouted = errors.New("the pod has a route there already")

// add adds the route, unless it is there. It never takes the place of another one: that may
// be the pod's way to the cluster.
func (r Route) add(link netlink.Link) error {
	nr := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(r.Destination)}
	if r.Gateway.IsValid() {
		nr.Gw = r.Gateway.AsSlice()
	} else {
		nr.Scope = netlink.SCOPE_LINK
	}
	err := netlink.RouteAdd(nr)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	routes, err := whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: nr.LinkIndex, Dst: nr.Dst}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_DST)
	})
	if err != nil {
		return err
	}
	if len(routes) == 0 {
		return errRouted
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func stateOf(name string) (s State, err error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return s, err
	}
	s = State{Name: name, MAC: link.Attrs().HardwareAddr.String(), MTU: link.Attrs().MTU}
	addresses, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return s, err
	}
	for _, a := range addresses {
		if !a.IP.IsLinkLocalUnicast() {
			s.Addresses = append(s.Addresses, a.IPNet.String())
		}
	}
	return s, nil
}

// ErrInPod says that a pod may still have an interface.
var ErrInPod = errors.New("the pod may have it still")

// Detach takes an interface out of a pod: a macvlan ends, and a moved one is the host's again as
// it was. Of a namespace that has ended it restores what the kernel brings back.
func (h *Host) Detach(netns string, o Original, w Want) error {
	pod, err := rdmanetns.Open(netns)
	if err == nil {
		defer pod.Close()
		err = pod.Do(func() error { return w.leave(o, h.own) })
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take network interface %q out of %q: %w: %w", w.Name, netns, ErrInPod, err)
	}
	if w.Mode == Move {
		return h.Restore(o, w.Alias)
	}
	return nil
}

// leave takes the interface out of the thread's namespace, if it is there.
func (w *Want) leave(o Original, host *rdmanetns.Namespace) error {
	if w.Mode != Move {
		return errors.Join(deleteLink(w.Name, w.Alias, w.Alias+unfinished), deleteLink(o.transit()))
	}
	links, err := whole(netlink.LinkList)
	if err != nil {
		return err
	}
	link := o.find(links, w.Alias, o.isInPod)
	if link == nil {
		return nil
	}
	if err := netlink.LinkSetDown(link); err != nil {
		return fmt.Errorf("set it down: %w", err)
	}
	if err := netlink.LinkSetName(link, o.transit()); err != nil {
		return fmt.Errorf("name it %q for the way: %w", o.transit(), err)
	}
	return netlink.LinkSetNsFd(link, host.FD())
}

// deleteLink deletes a macvlan of that name and one of the aliases, if there is one; any
// macvlan of a name that nobody else gives.
func deleteLink(name string, aliases ...string) error {
	link, err := netlink.LinkByName(name)
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}):
		return nil
	case err != nil:
		return err
	case link.Type() != "macvlan" || len(aliases) > 0 && !slices.Contains(aliases, link.Attrs().Alias):
		return nil
	}
	return netlink.LinkDel(link)
}
