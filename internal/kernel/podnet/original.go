package podnet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Original is the identity of an interface and its configuration on the host, which Restore restores.
type Original struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Device is its device on the bus, and Permanent its permanent hardware address. They are empty for virtual
	// interfaces.
	Bus       string `json:"bus,omitempty"`
	Device    string `json:"device,omitempty"`
	Permanent string `json:"permanent,omitempty"`
	// Peer is the index of the other end of a veth, which is on the host; 0 for others.
	Peer int `json:"peer,omitempty"`

	MAC       string    `json:"mac,omitempty"`
	Alias     string    `json:"alias,omitempty"`
	AltNames  []string  `json:"altNames,omitempty"`
	MTU       int       `json:"mtu,omitempty"`
	Up        bool      `json:"up,omitempty"`
	Addresses []address `json:"addresses,omitempty"`
	Routes    []route   `json:"routes,omitempty"`

	Neighbours []neighbour `json:"neighbours,omitempty"`
	// IPv4 is its settings below /proc/sys/net/ipv4/conf, in the kernel's order.
	IPv4 []uint32 `json:"ipv4,omitempty"`
	// IPv6 is its settings below /proc/sys/net/ipv6/conf, by name.
	IPv6 map[string]string `json:"ipv6,omitempty"`
	// Config and Ethtool are settings that stay on the interface when it moves.
	Config  *config             `json:"config,omitempty"`
	Ethtool map[string][]uint32 `json:"ethtool,omitempty"`
}

// Inspect returns an interface of the host, or why it cannot be attached in that mode. For an interface that stays on
// the host it returns only the identity.
func (h *Host) Inspect(name, pci, mode string) (o Original, err error) {
	err = h.own.Do(func() error {
		link, m, err := h.findUsable(name, pci, mode)
		if err != nil {
			return err
		}
		o = identity(link)
		if mode == Move {
			err = o.readSettings(link, m)
		}
		return err
	})
	return o, err
}

// readSettings reads the settings that the kernel removes from a moved interface, and those that a pod can change.
func (o *Original) readSettings(link netlink.Link, m *message) (err error) {
	if o.Addresses, err = addressesOf(link); err != nil {
		return fmt.Errorf("list addresses of %q: %w", o.Name, err)
	}
	if o.Routes, err = routesOf(link); err != nil {
		return fmt.Errorf("list routes of %q: %w", o.Name, err)
	}
	if o.Neighbours, err = neighboursOf(link); err != nil {
		return fmt.Errorf("list neighbours of %q: %w", o.Name, err)
	}
	if o.IPv4, err = m.ipv4Conf(); err != nil {
		return fmt.Errorf("read IPv4 settings of %q: %w", o.Name, err)
	}
	if o.IPv6, err = ipv6ConfOf(o.Name); err != nil {
		return fmt.Errorf("read IPv6 settings of %q: %w", o.Name, err)
	}
	o.Config = m.config()
	if o.Ethtool, err = ethtoolOf(o.Name); err != nil {
		return fmt.Errorf("read settings (ethtool) of %q: %w", o.Name, err)
	}
	return nil
}

func identity(link netlink.Link) Original {
	a := link.Attrs()
	o := Original{
		Name: a.Name, Index: a.Index, Bus: a.ParentDevBus, Device: a.ParentDev, Permanent: a.PermHWAddr.String(),
		MAC: a.HardwareAddr.String(), Alias: a.Alias, AltNames: a.AltNames, MTU: a.MTU, Up: a.Flags&net.FlagUp != 0,
	}
	if link.Type() == kindVeth {
		o.Peer = a.ParentIndex
	}
	return o
}

// ErrNotBack is the error for an interface that is neither in the pod nor on the host. After the end of a namespace the
// kernel needs some time to move it.
var ErrNotBack = errors.New("it has not come back to the host yet")

// Restore restores the configuration of an interface that is back on the host. It is idempotent.
func (h *Host) Restore(o Original) error {
	err := h.own.Do(func() error {
		link, err := o.here(-1)
		if err != nil {
			return err
		}
		if link == nil {
			return ErrNotBack
		}
		return o.restore(link)
	})
	if err != nil {
		return fmt.Errorf("restore network interface %q of the host: %w", o.Name, err)
	}
	return nil
}

// isOurs reports whether an interface has the alias, complete or unfinished.
func isOurs(l netlink.Link, alias string) bool {
	a := l.Attrs().Alias
	return a == alias || a == alias+unfinished
}

// unfinished is the suffix of the alias of an incomplete interface.
const unfinished = "/unfinished"

// transit returns the name of the interface while it moves.
func (o *Original) transit() string { return transitPrefix + fmt.Sprint(o.Index) }

// transitPrefix is the prefix of transit names. It leaves room for ten digits.
const transitPrefix = "_rdma"

// restore continues after an error, to restore as much as possible.
func (o *Original) restore(link netlink.Link) error {
	var errs steps
	errs.add("remove eBPF programs", removePrograms(link))
	name := o.restoreNames(link, &errs)
	o.restoreConfig(link, name, &errs)
	if o.Up {
		errs.add("set it up", netlink.LinkSetUp(link))
		// The kernel has reset its IPv6 MTU, and does so again when the carrier comes, in a work queue. Since Linux 6.8 a
		// look at the interface waits for that work (rtnl_getlink of net/core/rtnetlink.c).
		_, err := linkByName(name)
		errs.add("restore its IPv6 MTU", cmp.Or(err, restoreIPv6Conf(name, o.IPv6)))
	}
	for _, has := range o.Addresses {
		errs.add("add address "+has.IP, has.add(link))
	}
	for _, n := range o.Neighbours {
		errs.add("add neighbour "+n.IP, n.set(link))
	}
	for _, r := range o.Routes {
		if err := r.replace(link); o.Up {
			errs.add("add route to "+cmp.Or(r.To, "default"), err)
		}
	}
	if len(errs) == 0 { // last: until then the alias identifies the claim
		errs.add("set its alias", netlink.LinkSetAlias(link, o.Alias))
	}
	return errors.Join(errs...)
}

// steps are the errors of failed steps.
type steps []error

func (s *steps) add(what string, err error) {
	if err != nil {
		*s = append(*s, fmt.Errorf("%s: %w", what, err))
	}
}

// restoreNames restores the names of an interface, and returns its present name. Alternative names come first, because
// one that a pod has set may block the name.
func (o *Original) restoreNames(link netlink.Link, errs *steps) (name string) {
	name = link.Attrs().Name
	errs.add("restore its alternative names", o.restoreAltNames(link))
	if name == o.Name {
		return name
	}
	if err := rename(link, o.Name); err != nil {
		errs.add("name it "+o.Name, err)
		return name
	}
	return o.Name
}

// restoreConfig restores the settings that stay on an interface when it moves.
func (o *Original) restoreConfig(link netlink.Link, name string, errs *steps) {
	a := link.Attrs()
	if mac, err := net.ParseMAC(o.MAC); err == nil && a.HardwareAddr.String() != o.MAC {
		errs.add("set its hardware address", netlink.LinkSetHardwareAddr(link, mac))
	}
	if a.MTU != o.MTU {
		errs.add("set its MTU", netlink.LinkSetMTU(link, o.MTU))
	}
	if o.Config != nil {
		errs.add("restore its flags and sizes", o.Config.restore(link))
	}
	errs.add("restore its settings (ethtool)", setEthtool(name, o.Ethtool))
	if o.IPv4 != nil {
		errs.add("restore its IPv4 settings (sysctl net.ipv4.conf)", setIPv4Conf(link, slices.All(o.IPv4)))
	}
	errs.add("restore its IPv6 settings (sysctl net.ipv6.conf)", restoreIPv6Conf(name, o.IPv6))
}

// rename renames an interface, which must be down for this. If another interface has the name, rename must not set this
// one down, because each retry would interrupt it.
func rename(link netlink.Link, name string) error {
	if _, err := linkByName(name); !errors.Is(err, errNoLink) {
		return cmp.Or(err, fs.ErrExist)
	}
	if err := netlink.LinkSetDown(link); err != nil {
		return err
	}
	return netlink.LinkSetName(link, name)
}

// restoreAltNames restores the alternative names, and deletes all others, because the host may use such a name
// elsewhere.
func (o *Original) restoreAltNames(link netlink.Link) error {
	extra := slices.DeleteFunc(slices.Clone(link.Attrs().AltNames),
		func(name string) bool { return slices.Contains(o.AltNames, name) })
	errs := []error{deleteAltNames(link, extra)}
	for _, name := range o.AltNames {
		if !slices.Contains(link.Attrs().AltNames, name) {
			errs = append(errs, netlink.LinkAddAltName(link, name))
		}
	}
	return errors.Join(errs...)
}

// deleteAltNames deletes alternative names of an interface. A pod can give it some hundreds, so one request has many.
func deleteAltNames(link netlink.Link, names []string) error {
	const atOnce = 100 // names have at most 127 bytes, and an attribute 64 KiB
	for some := range slices.Chunk(names, atOnce) {
		req := nl.NewNetlinkRequest(unix.RTM_DELLINKPROP, unix.NLM_F_ACK)
		req.AddData(infomsg(link))
		list := nl.NewRtAttr(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, nil)
		for _, name := range some {
			list.AddRtAttr(unix.IFLA_ALT_IFNAME, nl.ZeroTerminated(name))
		}
		req.AddData(list)
		if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
			return err
		}
	}
	return nil
}
