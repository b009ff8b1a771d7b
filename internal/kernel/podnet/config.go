package podnet

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// message is the rtnetlink message (RTM_NEWLINK) of one interface. The netlink library does not read all of it.
type message struct {
	flags uint32
	attrs map[uint16][]byte
}

func readMessage(link netlink.Link) (m message, err error) {
	data, err := linkMessage(link.Attrs().Index)
	if err != nil {
		return m, err
	}
	return parseMessage(data)
}

func parseMessage(data []byte) (m message, err error) {
	if len(data) < unix.SizeofIfInfomsg {
		return m, fmt.Errorf("the kernel sent a message of %d bytes", len(data))
	}
	attrs, err := nl.ParseRouteAttrAsMap(data[unix.SizeofIfInfomsg:])
	m = message{flags: nl.DeserializeIfInfomsg(data).Flags, attrs: map[uint16][]byte{}}
	for number, a := range attrs {
		m.attrs[number&nl.NLA_TYPE_MASK] = a.Value
	}
	return m, err
}

// Settings that a pod can change, and that the kernel keeps when the interface changes its namespace. One request
// restores all of them.
const configFlags = unix.IFF_PROMISC | unix.IFF_ALLMULTI | unix.IFF_MULTICAST |
	unix.IFF_NOARP | unix.IFF_DYNAMIC | unix.IFF_DEBUG

var configAttrs = [...]uint16{
	unix.IFLA_TXQLEN, unix.IFLA_GROUP, unix.IFLA_LINKMODE,
	unix.IFLA_GSO_MAX_SIZE, unix.IFLA_GSO_MAX_SEGS, unix.IFLA_GRO_MAX_SIZE, unix.IFLA_GSO_IPV4_MAX_SIZE,
	unix.IFLA_GRO_IPV4_MAX_SIZE,
}

// config has the flags of an interface, and its configAttrs by number.
type config struct {
	Flags uint32            `json:"flags"`
	Attrs map[uint16][]byte `json:"attrs,omitempty"`
}

func (m *message) config() *config {
	c := &config{Flags: m.flags & configFlags, Attrs: map[uint16][]byte{}}
	for _, number := range configAttrs {
		if value, ok := m.attrs[number]; ok {
			c.Attrs[number] = value
		}
	}
	return c
}

// restore restores the configuration of an interface.
func (c *config) restore(link netlink.Link) error {
	msg := infomsg(link)
	msg.Flags, msg.Change = c.Flags, configFlags
	req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	req.AddData(msg)
	for _, number := range configAttrs {
		if value, ok := c.Attrs[number]; ok {
			req.AddData(nl.NewRtAttr(int(number), value))
		}
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func infomsg(link netlink.Link) *nl.IfInfomsg {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(link.Attrs().Index)
	return msg
}
