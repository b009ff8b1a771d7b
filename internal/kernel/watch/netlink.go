package watch

import (
	"encoding/binary"
	"iter"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// dumpLinks returns the request for all links.
func dumpLinks() []byte {
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_GETLINK)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	return b
}

// links is the state that rtnetlink has reported so far. It holds every link of the host, so that an index has a name.
// It also identifies repeated messages: the kernel repeats a link for every statistic that somebody sets, and an IPv6
// address for every router advertisement.
type links struct {
	byIndex   map[int32]link
	addresses map[address]uint32 // their flags
}

// link contains the properties of a link that determine the state of a port and its GIDs.
type link struct {
	name, mac string
	flags     uint32
	operState byte
	master    uint32
}

type address struct {
	index int32
	bytes string
}

func newLinks() *links {
	return &links{byIndex: map[int32]link{}, addresses: map[address]uint32{}}
}

// linkFlags are the flags that determine whether a link is usable.
const linkFlags = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP | unix.IFF_DORMANT

// changes names the devices to read after a datagram, which may contain several messages.
func (l *links) changes(datagram []byte, of *Interest) rdma.Changes {
	var c rdma.Changes
	messages, err := syscall.ParseNetlinkMessage(datagram)
	if err != nil {
		return rdma.Changes{All: true} // truncated or malformed
	}
	for _, m := range messages {
		switch m.Header.Type {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			c.Merge(l.linkChanges(m, of))
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			c.Merge(l.addressChanges(m, of))
		}
	}
	return c
}

func (l *links) linkChanges(m syscall.NetlinkMessage, of *Interest) rdma.Changes {
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] != unix.AF_UNSPEC {
		return rdma.Changes{} // a bridge's message about one of its ports
	}
	index := int32(binary.NativeEndian.Uint32(m.Data[4:]))
	before, known := l.byIndex[index]
	now := parseLink(m.Data)
	if m.Header.Type == unix.RTM_DELLINK {
		delete(l.byIndex, index)
	} else {
		l.byIndex[index] = now
	}
	isAnswer := m.Header.Flags&unix.NLM_F_MULTI != 0 // part of the dump
	if isAnswer || known && before == now && m.Header.Type == unix.RTM_NEWLINK {
		return rdma.Changes{}
	}
	// The rate of a bond may change with a member while the bond stays up.
	master := func(member link) string { return l.byIndex[int32(member.master)].name }
	return of.netdevs(before.name, now.name, master(before), master(now))
}

func parseLink(data []byte) link {
	l := link{flags: binary.NativeEndian.Uint32(data[8:]) & linkFlags}
	for kind, value := range attributes(data[unix.SizeofIfInfomsg:]) {
		switch {
		case kind == unix.IFLA_IFNAME:
			l.name = unix.ByteSliceToString(value)
		case kind == unix.IFLA_ADDRESS:
			l.mac = string(value)
		case kind == unix.IFLA_OPERSTATE && len(value) > 0:
			l.operState = value[0]
		case kind == unix.IFLA_MASTER && len(value) >= 4:
			l.master = binary.NativeEndian.Uint32(value)
		}
	}
	return l
}

func (l *links) addressChanges(m syscall.NetlinkMessage, of *Interest) rdma.Changes {
	if len(m.Data) < unix.SizeofIfAddrmsg {
		return rdma.Changes{}
	}
	flags := uint32(m.Data[2])
	a := address{index: int32(binary.NativeEndian.Uint32(m.Data[4:]))}
	for kind, value := range attributes(m.Data[unix.SizeofIfAddrmsg:]) {
		switch {
		case kind == unix.IFA_LOCAL, kind == unix.IFA_ADDRESS && a.bytes == "":
			a.bytes = string(value) + string(m.Data[1]) // with the prefix length
		case kind == unix.IFA_FLAGS && len(value) >= 4:
			flags = binary.NativeEndian.Uint32(value)
		}
	}
	before, known := l.addresses[a]
	if m.Header.Type == unix.RTM_DELADDR {
		delete(l.addresses, a)
	} else {
		l.addresses[a] = flags
		if known && before == flags {
			return rdma.Changes{}
		}
	}
	return of.netdevs(l.byIndex[a.index].name)
}

// Attributes of RDMA notifications (include/uapi/rdma/rdma_netlink.h).
const (
	rdmaMonitor  = 5<<10 | 28 // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_MONITOR
	rdmaDevName  = 2          // RDMA_NLDEV_ATTR_DEV_NAME
	rdmaNdevName = 51         // RDMA_NLDEV_ATTR_NDEV_NAME
)

// rdmaChanges names the devices to read after a datagram of RDMA notifications. It covers HCAs that register or
// unregister, ports that get or lose an interface, and renames of both. It does not distinguish between these events.
func rdmaChanges(datagram []byte, _ *Interest) rdma.Changes {
	var c rdma.Changes
	messages, err := syscall.ParseNetlinkMessage(datagram)
	if err != nil {
		return rdma.Changes{All: true}
	}
	for _, m := range messages {
		if m.Header.Type != rdmaMonitor {
			continue
		}
		for kind, value := range attributes(m.Data) {
			switch kind {
			case rdmaDevName:
				c.IBDevs.Add(unix.ByteSliceToString(value))
			case rdmaNdevName:
				c.Netdevs.Add(unix.ByteSliceToString(value))
			}
		}
	}
	return c
}

// attributes iterates over the attributes of a message. It stops at a truncated attribute.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			length := int(binary.NativeEndian.Uint16(b))
			if length < unix.SizeofNlAttr || length > len(b) {
				return
			}
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofNlAttr:length]) {
				return
			}
			b = b[min(len(b), (length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
		}
	}
}
