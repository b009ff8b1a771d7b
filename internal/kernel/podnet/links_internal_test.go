package podnet

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// linkOf is the kernel's message of an interface.
func linkOf(index int32, name string, attrs ...[]byte) []byte {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = index
	data := append(msg.Serialize(), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)).Serialize()...)
	return append(data, slices.Concat(attrs...)...)
}

// messageOf is a message of an answer.
func messageOf(kind uint16, data []byte) (b []byte) {
	length := unix.SizeofNlMsghdr + len(data)
	b = binary.NativeEndian.AppendUint32(b, uint32(length))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, make([]byte, unix.SizeofNlMsghdr-len(b))...)
	return append(append(b, data...), make([]byte, (4-length%4)%4)...)
}

// vfList is IFLA_VFINFO_LIST as the kernel sends it for so many functions. An attribute has 16 bits for its length
// (struct nlattr of include/uapi/linux/netlink.h), and a function takes some 300 bytes (rtnl_fill_vfinfo of
// net/core/rtnetlink.c), so the length of 256 functions is wrong.
func vfList(vfs int) []byte {
	one := nl.NewRtAttr(nl.IFLA_VF_INFO, nil)
	for kind := nl.IFLA_VF_MAC; kind <= nl.IFLA_VF_TRUST; kind++ {
		one.AddRtAttr(kind, make([]byte, 28))
	}
	content := slices.Repeat(one.Serialize(), vfs)
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(content)))
	return append(binary.NativeEndian.AppendUint16(b, unix.IFLA_VFINFO_LIST), content...)
}

// TestManyVFs: a physical function with 256 virtual ones hides no other interface, and has its name, even if the kernel
// sends what no attribute can hold. The driver does not ask for it.
func TestManyVFs(t *testing.T) {
	list := vfList(256)
	must.GreaterEq(t, 64<<10, len(list), must.Sprintf("the functions have only %d bytes", len(list)))
	var datagram []byte
	for _, data := range [][]byte{linkOf(2, "eth0"), linkOf(3, "ens1f0np0", list), linkOf(4, "ens1f0v0")} {
		datagram = append(datagram, messageOf(unix.RTM_NEWLINK, data)...)
	}
	datagram = append(datagram, messageOf(unix.NLMSG_DONE, make([]byte, 4))...)
	var names []string
	a := answer{visit: func(data []byte) bool { names = append(names, readLink(data).Attrs().Name); return true }}
	if end, err := a.read(datagram); !end || err != nil {
		t.Fatal(end, err)
	}
	test.SliceEqOp(t, []string{"eth0", "ens1f0np0", "ens1f0v0"}, names, test.Sprint("interfaces"))
	for _, req := range []*nl.NetlinkRequest{linkRequest(unix.NLM_F_DUMP, 0), linkRequest(unix.NLM_F_ACK, 3)} {
		attrs, err := nl.ParseRouteAttrAsMap(req.Serialize()[unix.SizeofNlMsghdr+unix.SizeofIfInfomsg:])
		mask := nl.NativeEndian().Uint32(attrs[unix.IFLA_EXT_MASK].Value)
		if err != nil || mask&nl.RTEXT_FILTER_VF != 0 {
			t.Errorf("the request asks for virtual functions: %#x, %v", mask, err)
		}
	}
}

// TestAnswer: what the kernel says at the end of an answer counts, and messages of other requests do not.
func TestAnswer(t *testing.T) {
	number := func(n int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(n)) }
	interrupted := messageOf(unix.RTM_NEWLINK, linkOf(2, "eth0"))
	binary.NativeEndian.PutUint16(interrupted[6:], unix.NLM_F_DUMP_INTR)
	other := messageOf(unix.NLMSG_DONE, number(0))
	binary.NativeEndian.PutUint32(other[8:], 77)
	for name, tc := range map[string]struct {
		datagram []byte
		end      bool
		want     error
	}{
		"the end":                {messageOf(unix.NLMSG_DONE, number(0)), true, nil},
		"the end of old kernels": {messageOf(unix.NLMSG_DONE, nil), true, nil},
		"an error":               {messageOf(unix.NLMSG_ERROR, number(-int32(unix.ENODEV))), true, unix.ENODEV},
		"an error at the end":    {messageOf(unix.NLMSG_DONE, number(-int32(unix.EMSGSIZE))), true, unix.EMSGSIZE},
		"a list that changed": {append(interrupted, messageOf(unix.NLMSG_DONE, number(0))...), true,
			netlink.ErrDumpInterrupted},
		"another request": {other, false, nil},
		"garbage":         {[]byte{200, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, true, unix.EINVAL},
	} {
		a := answer{visit: func([]byte) bool { return true }}
		if end, err := a.read(tc.datagram); end != tc.end || !errors.Is(err, tc.want) {
			t.Errorf("%s: end %v, %v, want %v, %v", name, end, err, tc.end, tc.want)
		}
	}
}

// TestManyInterfaces: of a namespace with more interfaces than the driver reads, it says so.
func TestManyInterfaces(t *testing.T) {
	n := podnettest.New(t)
	n.Links(4)
	err := n.Do(func() error {
		return ask(linkRequest(unix.NLM_F_DUMP, 0), 1<<10, func([]byte) bool { return true })
	})
	test.ErrorIs(t, err, errMany)
}
