package podnet

import (
	"iter"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// An interface that moves to another namespace loses its settings below /proc/sys/net/ipv4/conf. Hosts with several
// HCAs in one network need some of them: arp_ignore, arp_announce, rp_filter. In a container that file system is
// read-only. rtnetlink can change the settings too, and needs only CAP_NET_ADMIN for it (net/ipv4/devinet.c:
// inet_fill_link_af, inet_set_link_af). rtnetlink cannot set the settings of IPv6.

// ipv4Conf returns the settings of an interface, or nothing without IPv4. The setting with number n is at index n-1
// (IPV4_DEVCONF_* of include/uapi/linux/ip.h).
func (m *message) ipv4Conf() ([]uint32, error) {
	data, err := attribute(m.attrs[unix.IFLA_AF_SPEC], unix.AF_INET)
	if err == nil {
		data, err = attribute(data, unix.IFLA_INET_CONF)
	}
	conf := make([]uint32, len(data)/4)
	for i := range conf {
		conf[i] = nl.NativeEndian().Uint32(data[4*i:])
	}
	return conf, err
}

// attribute returns the value of one attribute, or nothing if the attribute is missing.
func attribute(data []byte, number uint16) ([]byte, error) {
	attrs, err := nl.ParseRouteAttrAsMap(data)
	return attrs[number].Value, err
}

// mcForwarding is the number of a setting that only the kernel can set (IPV4_DEVCONF_MC_FORWARDING).
const mcForwarding = 2

// setIPv4Conf changes the settings of an interface that differ from the wanted ones, by index. It is idempotent.
func setIPv4Conf(link netlink.Link, want iter.Seq2[int, uint32]) error {
	m, err := readMessage(link)
	if err != nil {
		return err
	}
	has, err := m.ipv4Conf()
	if err != nil {
		return err
	}
	conf := nl.NewRtAttr(unix.IFLA_INET_CONF, nil)
	different := false
	for i, value := range want {
		if number := i + 1; i < len(has) && has[i] != value && number != mcForwarding {
			conf.AddRtAttr(number, nl.Uint32Attr(value))
			different = true
		}
	}
	if !different {
		return nil
	}
	family, spec := nl.NewRtAttr(unix.AF_INET, nil), nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	family.AddChild(conf)
	spec.AddChild(family)
	req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	req.AddData(infomsg(link))
	req.AddData(spec)
	_, err = req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
