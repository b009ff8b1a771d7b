package podnettest

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/shoenig/test/must"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// What a pod with CAP_NET_ADMIN can make in its namespace, as fast as the kernel takes it.

// flood sends requests, many at a time, and does not wait for answers.
func (n *Namespace) flood(count int, request func(i int) *nl.NetlinkRequest) {
	n.t.Helper()
	err := n.Do(func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		const atOnce = 500
		var b []byte
		for i := range count {
			if b = append(b, request(i).Serialize()...); len(b)%4 != 0 {
				b = append(b, make([]byte, 4-len(b)%4)...)
			}
			if (i+1)%atOnce == 0 || i+1 == count {
				if _, err := unix.Write(fd, b); err != nil {
					return err
				}
				b = b[:0]
			}
		}
		return nil
	})
	must.NoError(n.t, err)
}

// number makes an address of 10.0.0.0/8.
func number(i int) []byte { return binary.BigEndian.AppendUint32(nil, 10<<24+uint32(i)) }

// Rules makes rules that lead to a table. Without NLM_F_EXCL the kernel looks for no equal one, and in descending order
// of priority each goes to the front of its list.
func (n *Namespace) Rules(count, priority, table int) {
	n.t.Helper()
	n.flood(count, func(i int) *nl.NetlinkRequest {
		req := nl.NewNetlinkRequest(unix.RTM_NEWRULE, unix.NLM_F_CREATE)
		req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET, Src_len: 32, Type: unix.FR_ACT_TO_TBL}})
		req.AddData(nl.NewRtAttr(unix.FRA_SRC, number(i)))
		req.AddData(nl.NewRtAttr(unix.FRA_PRIORITY, nl.Uint32Attr(uint32(max(priority-i, 1)))))
		req.AddData(nl.NewRtAttr(unix.FRA_TABLE, nl.Uint32Attr(uint32(table))))
		return req
	})
}

// Routes makes routes through an interface.
func (n *Namespace) Routes(count int, dev string) {
	n.t.Helper()
	index := n.index(dev)
	n.flood(count, func(i int) *nl.NetlinkRequest {
		req := nl.NewNetlinkRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE)
		req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET, Dst_len: 32, Table: unix.RT_TABLE_MAIN,
			Protocol: unix.RTPROT_STATIC, Scope: unix.RT_SCOPE_LINK, Type: unix.RTN_UNICAST}})
		req.AddData(nl.NewRtAttr(unix.RTA_DST, number(i)))
		req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(index))))
		return req
	})
}

// Addresses adds IPv6 addresses to an interface.
func (n *Namespace) Addresses(count int, dev string) {
	n.t.Helper()
	index := n.index(dev)
	n.flood(count, func(i int) *nl.NetlinkRequest {
		req := nl.NewNetlinkRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE)
		msg := nl.NewIfAddrmsg(unix.AF_INET6)
		msg.Prefixlen, msg.Flags, msg.Index = 128, unix.IFA_F_NODAD, uint32(index)
		req.AddData(msg)
		address := append(net.ParseIP("fd77::")[:12:12], number(i)...)
		req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, address))
		req.AddData(nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(unix.IFA_F_NODAD|unix.IFA_F_NOPREFIXROUTE)))
		return req
	})
}

// AltNames gives an interface alternative names of the largest size, as many of them as the kernel allows.
func (n *Namespace) AltNames(count int, dev string) {
	n.t.Helper()
	index := n.index(dev)
	n.flood(count, func(i int) *nl.NetlinkRequest {
		req := nl.NewNetlinkRequest(unix.RTM_NEWLINKPROP, 0)
		msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
		msg.Index = int32(index)
		req.AddData(msg)
		list := nl.NewRtAttr(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, nil)
		list.AddRtAttr(unix.IFLA_ALT_IFNAME, nl.ZeroTerminated(fmt.Sprintf("a%0126d", i)))
		req.AddData(list)
		return req
	})
}

// Links makes pairs of interfaces.
func (n *Namespace) Links(count int) {
	n.t.Helper()
	n.make(count, func(i int) netlink.Link {
		return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("a", i), TxQLen: -1}, PeerName: fmt.Sprint("b", i)}
	})
}

// OnTop makes macvlans on top of an interface.
func (n *Namespace) OnTop(count int, dev string) {
	n.t.Helper()
	index := n.index(dev)
	n.make(count, func(i int) netlink.Link {
		return &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("m", i), ParentIndex: index, TxQLen: -1},
			Mode: netlink.MACVLAN_MODE_BRIDGE}
	})
}

func (n *Namespace) make(count int, link func(i int) netlink.Link) {
	n.t.Helper()
	err := n.Do(func() error {
		for i := range count {
			if err := netlink.LinkAdd(link(i)); err != nil {
				return err
			}
		}
		return nil
	})
	must.NoError(n.t, err)
}

func (n *Namespace) index(dev string) (index int) {
	n.t.Helper()
	err := n.Do(func() error {
		i, err := net.InterfaceByName(dev)
		if err == nil {
			index = i.Index
		}
		return err
	})
	must.NoError(n.t, err)
	return index
}
