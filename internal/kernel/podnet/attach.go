package podnet

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
)

// Want describes an interface to attach to a pod.
type Want struct {
	Mode string
	// VLAN is the number of the VLAN on top of the host's interface in which a made interface is, 0 for none.
	VLAN int `json:",omitempty"`
	// Name and Alias are those in the pod. The alias identifies the interface.
	Name, Alias string
	// MTU is 0 to keep the MTU of the host's interface.
	MTU       int
	Addresses []netip.Prefix
	// Gateways are the next hops of what the addresses send beyond Routes and their networks, one of each IP family.
	Gateways []netip.Addr
	Routes   []Route
}

// State is the state of an interface in a pod.
type State struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac,omitempty"`
	MTU       int      `json:"mtu,omitempty"`
	Addresses []string `json:"addresses,omitempty"` // each with a prefix length
	// IPv6 is the reason why the pod's interface accepts what routers announce, "" if it does not.
	IPv6 string `json:"ipv6,omitempty"`
}

// ErrTaken is the error if the pod has another interface of the name.
var ErrTaken = errors.New("the pod has another interface of that name already: name another one in the claim " +
	"(network.interface)")

// Attach moves the inspected interface, or makes a macvlan or ipvlan on top of it, in the network namespace of a path.
// It is idempotent. After an error the caller must call Detach.
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
	b, err := h.lowerOf(o, w)
	if err == nil {
		err = pod.Do(func() (err error) { there, err = w.isAttached(o, b, h.own); return err })
	}
	if err == nil && !there {
		if w.Mode == Move {
			err = h.send(o, w.Alias, pod)
		} else {
			err = h.stack(o, b, w.Mode, pod)
		}
	}
	if err == nil {
		err = pod.Do(func() (err error) { s, err = w.configure(o, b, h); return err })
	}
	if err != nil {
		return s, fmt.Errorf("attach network interface %q of the host to %q as %q (%s): %w", o.Name, netns, w.Name, w.Mode,
			err)
	}
	return s, nil
}

// isAttached reports whether the thread's namespace has the interface. An interrupted attempt may have left it with its
// transit name. A pod may have another interface of the same name, with any alias.
func (w *Want) isAttached(o Original, b lowerLink, host *rdmanetns.Namespace) (bool, error) {
	var ours netlink.Link
	var err error
	if w.Mode == Move {
		if ours, err = o.findInPod(host); err != nil {
			return false, err
		}
	}
	link, err := linkByName(w.Name)
	switch {
	case errors.Is(err, errNoLink):
		return ours != nil, nil
	case err != nil:
		return false, err
	case ours != nil && ours.Attrs().Index == link.Attrs().Index:
		return true, nil
	case w.Mode == Move || !isOurs(link, w.Alias):
		return false, ErrTaken
	}
	number, err := numberOf(host)
	if err == nil && !b.isOn(link, w.Mode, number) {
		err = ErrTaken
	}
	return err == nil, err
}

// send moves the interface of the host under its transit name. An interrupted attempt may have left it with either
// name.
func (h *Host) send(o Original, alias string, pod *rdmanetns.Namespace) error {
	return h.own.Do(func() error {
		link, err := o.here(-1)
		if err != nil {
			return err
		}
		if link == nil {
			return fmt.Errorf("the host's interface %q is missing, or it is another interface now", o.Name)
		}
		if err := netlink.LinkSetAlias(link, alias+unfinished); err != nil {
			return fmt.Errorf("set its alias: %w", err)
		}
		if err := netlink.LinkSetDown(link); err != nil {
			return fmt.Errorf("set it down: %w", err)
		}
		if err := netlink.LinkSetName(link, o.transit()); err != nil {
			return fmt.Errorf("give it the transit name %q: %w", o.transit(), err)
		}
		if err := netlink.LinkSetNsFd(link, pod.FD()); err != nil {
			return fmt.Errorf("move it: %w", err)
		}
		return nil
	})
}

// configure configures the interface in the thread's namespace.
func (w *Want) configure(o Original, b lowerLink, h *Host) (s State, err error) {
	link, err := w.link(o, h.own)
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
	if w.Mode != Move && w.MTU > b.mtu { // the kernel allows it for an ipvlan, which then loses its large packets
		return s, fmt.Errorf("set its MTU to %d: that of the host's %s is only %d: lower network.mtu", w.MTU, b.name, b.mtu)
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
	guard := setGuarded(w.Name) // before it is up: no router has announced anything until then
	if err := netlink.LinkSetUp(link); err != nil {
		return s, fmt.Errorf("set it up: %w", err)
	}
	if err := w.route(link, h.owner); err != nil {
		return s, err
	}
	if err := netlink.LinkSetAlias(link, w.Alias); err != nil { // last: the hook then treats the interface as complete
		return s, fmt.Errorf("set its alias: %w", err)
	}
	if s, err = w.state(); err == nil && guard != nil {
		s.IPv6 = guard.Error()
	}
	return s, err
}

// link finds the interface in the thread's namespace.
func (w *Want) link(o Original, host *rdmanetns.Namespace) (netlink.Link, error) {
	if w.Mode == Move {
		link, err := o.findInPod(host)
		if err == nil && link == nil {
			err = errors.New("it is not in the pod any more")
		}
		return link, err
	}
	link, err := linkByName(w.Name)
	if errors.Is(err, errNoLink) {
		link, err = linkByName(o.transit())
	}
	return link, err
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// state returns the state of the configured interface. Its addresses are the wanted ones: the pod may add others, as
// many as it likes.
func (w *Want) state() (s State, err error) {
	link, err := linkByName(w.Name)
	if err != nil {
		return s, err
	}
	s = State{Name: w.Name, MAC: link.Attrs().HardwareAddr.String(), MTU: link.Attrs().MTU}
	for _, a := range w.Addresses {
		s.Addresses = append(s.Addresses, a.String())
	}
	return s, nil
}

// ErrInPod is the error if a pod may still have an interface.
var ErrInPod = errors.New("the pod may still have it")

// Detach removes an interface from a pod. It deletes a made interface, and moves and restores a moved one. If the
// namespace has ended, the kernel moves the interface back, and Detach restores it. It leaves the interface of a VLAN
// to [Host.RemoveVLAN]. It is idempotent.
//
// It removes the rules of the addresses of w, and no others: a pod may have made any number of them. The rules end with
// the namespace, so w has addresses only if the pod goes on without the interface.
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
		return h.Restore(o)
	}
	return nil
}

// leave removes the interface from the thread's namespace, if it is there.
func (w *Want) leave(o Original, host *rdmanetns.Namespace) error {
	if w.Mode != Move {
		return errors.Join(w.deleteLink(w.Name, w.Alias, w.Alias+unfinished), w.deleteLink(o.transit()))
	}
	link, err := o.findInPod(host)
	if err != nil || link == nil {
		return err
	}
	if err := w.removeRules(link); err != nil {
		return err
	}
	if err := clearExtras(link); err != nil {
		return err
	}
	if err := netlink.LinkSetDown(link); err != nil {
		return fmt.Errorf("set it down: %w", err)
	}
	if err := giveTransitName(link, o.transit()); err != nil {
		return err
	}
	return netlink.LinkSetNsFd(link, host.FD())
}

// maxOnTop is how many interfaces on top of a moved one are deleted one by one, for which the kernel needs some
// milliseconds each. The kernel deletes the others together, with the namespace.
const maxOnTop = 16

// clearExtras removes what a pod has added to the interface and the kernel keeps. It deletes the interfaces on top,
// because such an interface may leave this one promiscuous until the namespace ends. It deletes the alternative names,
// because the host may have another interface with such a name.
func clearExtras(link netlink.Link) error {
	var onTop []netlink.Link
	err := eachLink(func(l netlink.Link) bool {
		if isOnTop(l, link.Attrs().Index) {
			onTop = append(onTop, l)
		}
		return len(onTop) < maxOnTop
	})
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, errMany) {
		return fmt.Errorf("list the pod's interfaces on top of it: %w", err)
	}
	for _, l := range onTop {
		if err := netlink.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("delete %s %q of the pod, which is on top of it: %w", l.Type(), l.Attrs().Name, err)
		}
	}
	if err := deleteAltNames(link, link.Attrs().AltNames); err != nil {
		return fmt.Errorf("delete its alternative names: %w", err)
	}
	return nil
}

// giveTransitName gives an interface in a pod its transit name. If the pod has an interface of that name, it uses a
// random name.
func giveTransitName(link netlink.Link, transit string) error {
	err := netlink.LinkSetName(link, transit)
	if errors.Is(err, fs.ErrExist) && link.Attrs().Name != transit {
		transit = transitPrefix + rand.Text()[:9]
		err = netlink.LinkSetName(link, transit)
	}
	if err != nil {
		return fmt.Errorf("give it the transit name %q: %w", transit, err)
	}
	return nil
}
