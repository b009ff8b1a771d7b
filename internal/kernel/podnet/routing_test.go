package podnet_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// fabric is a host with two rails, whose wires end at switches, and a far machine with an interface at each switch.
type fabric struct {
	*testing.T
	host, pod, far *podnettest.Namespace
	h              *podnet.Host
}

// newFabric connects rail0 and far0 with the switch sw0, and rail1 and far1 with sw1; with one switch all with sw0.
func newFabric(t *testing.T, switches int) *fabric {
	t.Helper()
	f := &fabric{T: t, host: podnettest.New(t), pod: podnettest.New(t), far: podnettest.New(t)}
	for i := range switches {
		f.host.IP(fmt.Sprintf("link add sw%d type bridge", i))
		f.host.IP(fmt.Sprintf("link set sw%d up", i))
	}
	for i := range 2 {
		sw := i % switches
		f.host.Wire(fmt.Sprintf("rail%d", i))
		f.host.IP(fmt.Sprintf("link set w-rail%d master sw%d", i, sw))
		f.host.IP(fmt.Sprintf("link add far%d type veth peer name w-far%d", i, i))
		f.host.IP(fmt.Sprintf("link set w-far%d up master sw%d", i, sw))
		link := fmt.Sprintf("far%d", i)
		if err := f.host.Do(func() error {
			l, err := netlink.LinkByName(link)
			if err != nil {
				return err
			}
			return netlink.LinkSetNsFd(l, f.far.FD())
		}); err != nil {
			t.Fatal(err)
		}
		f.far.IP("link set " + link + " up")
	}
	f.h = podnet.On(f.host.Namespace, "rdma.dev", nil)
	return f
}

// attach gives the pod rdmaN on railN.
func (f *fabric) attach(n int, w podnet.Want) {
	f.Helper()
	w.Name, w.Alias = fmt.Sprintf("rdma%d", n), fmt.Sprintf("rdma.dev/claim/1/%d", n)
	o, err := f.h.Inspect(fmt.Sprintf("rail%d", n), "", w.Mode)
	if err == nil {
		_, err = f.h.Attach(f.pod.Path(), o, w)
	}
	if err == nil {
		_, err = f.h.Attach(f.pod.Path(), o, w) // twice is like once
	}
	if err != nil {
		f.Fatal(err)
	}
}

// packets is how many packets each exchange sends. It is far above what the kernel sends on its own.
const packets = 100

// carriers sends packets from an address of the pod to one of the far machine, has them answered, and returns the
// interfaces of the pod that sent them.
func (f *fabric) carriers(from, to string) (by []string) {
	f.Helper()
	before := f.sent()
	server, client := f.udp(f.far, to), f.udp(f.pod, from)
	defer server.Close()
	defer client.Close()
	for range packets {
		if _, err := client.WriteTo([]byte("ping"), server.LocalAddr()); err != nil {
			f.Fatalf("%s to %s: %v", from, to, err)
		}
		b := make([]byte, 16)
		n, back, err := server.ReadFrom(b)
		if err == nil {
			_, err = server.WriteTo(b[:n], back)
		}
		if err == nil {
			_, _, err = client.ReadFrom(b)
		}
		if err != nil {
			f.Fatalf("%s to %s: %v\n%s%s", from, to, err, f.pod.IP("rule"), f.pod.IP("route show table all"))
		}
	}
	for name, n := range f.sent() {
		if n-before[name] >= packets {
			by = append(by, name)
		}
	}
	return by
}

func (f *fabric) udp(ns *podnettest.Namespace, address string) (c *net.UDPConn) {
	f.Helper()
	err := ns.Do(func() (err error) {
		c, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(address)})
		return err
	})
	if err == nil {
		err = c.SetDeadline(time.Now().Add(20 * time.Second))
	}
	if err != nil {
		f.Fatalf("listen on %s: %v", address, err)
	}
	return c
}

// sent is how many packets each interface of the pod has sent.
func (f *fabric) sent() map[string]uint64 {
	f.Helper()
	out := map[string]uint64{}
	if err := f.pod.Do(func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			out[l.Attrs().Name] = l.Attrs().Statistics.TxPackets
		}
		return err
	}); err != nil {
		f.Fatal(err)
	}
	return out
}

func (f *fabric) expect(from, to, by string) {
	f.Helper()
	if got := f.carriers(from, to); !slices.Equal(got, []string{by}) {
		f.Errorf("from %s to %s: sent by %v, want %s", from, to, got, by)
	}
}

// parsed are addresses with the lengths of their networks.
func parsed(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

var modes = []string{podnet.Move, podnet.Macvlan}

// TestRails: each rail has a subnet and a gateway of its own. What an address sends leaves by its interface. Its way is
// a route of the claim, which both rails have, or the gateway.
func TestRails(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			f := newFabric(t, 2)
			f.far.IP("addr add 10.99.0.1/32 dev lo")
			f.far.IP("addr add fd99::1/128 dev lo nodad") // else the kernel takes it into use in its own time
			for i := range 2 {
				f.far.IP(fmt.Sprintf("addr add 10.78.%d.254/24 dev far%d", i, i))
				f.far.IP(fmt.Sprintf("addr add fd78:%d::fe/64 dev far%d nodad", i, i))
				gateway := netip.AddrFrom4([4]byte{10, 78, byte(i), 254})
				f.attach(i, podnet.Want{
					Mode: mode, Addresses: parsed(fmt.Sprintf("10.78.%d.2/24", i), fmt.Sprintf("fd78:%d::2/64", i)),
					Routes:   []podnet.Route{{Destination: netip.MustParsePrefix("10.99.0.0/24"), Gateway: gateway}},
					Gateways: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("fd78:%d::fe", i))},
				})
			}
			for i := range 2 {
				by := fmt.Sprintf("rdma%d", i)
				f.expect(fmt.Sprintf("10.78.%d.2", i), "10.99.0.1", by)
				f.expect(fmt.Sprintf("fd78:%d::2", i), "fd99::1", by)
			}
			test.StrContains(t, f.pod.IP("route get 10.99.0.1"), "dev rdma0 src 10.78.0.2",
				test.Sprint("without an address the first interface is not the way"))
			if out, err := f.pod.Try("-6 route get fd99::1"); err == nil {
				t.Errorf("a gateway is a way for others than the interface's addresses: %s", out)
			}
			// The control: without the rule what rail 1 sends leaves by rail 0.
			f.pod.IP("rule del from 10.78.1.2")
			f.expect("10.78.1.2", "10.99.0.1", "rdma0")
		})
	}
}

// TestOneSubnet: both rails are in one subnet. What an address sends leaves by its interface, and only this interface
// answers for it.
func TestOneSubnet(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			f := newFabric(t, 1)
			f.far.IP("addr add 10.78.0.11/24 dev far0")
			f.far.IP("addr add fd78::11/64 dev far0 nodad")
			for i := range 2 {
				addresses := parsed(fmt.Sprintf("10.78.0.%d/24", 2+i), fmt.Sprintf("fd78::%d/64", 2+i))
				f.attach(i, podnet.Want{Mode: mode, Addresses: addresses})
			}
			for i := range 2 {
				f.expect(fmt.Sprintf("10.78.0.%d", 2+i), "10.78.0.11", fmt.Sprintf("rdma%d", i))
				f.expect(fmt.Sprintf("fd78::%d", 2+i), "fd78::11", fmt.Sprintf("rdma%d", i))
			}
			const times = 20
			for range times {
				must.SliceEqOp(t, []string{"rdma1"}, f.answers(), must.Sprint("answer for the address of rdma1"))
			}
			// The controls: with the kernel's own setting both answer (ARP flux), and without the rule both send by rail 0.
			sysctl(t, f.pod, "rdma0", "ipv4/arp_ignore", "0")
			for range times {
				must.SliceEqOp(t, []string{"rdma0", "rdma1"}, f.answers(), must.Sprint("with arp_ignore=0"))
			}
			f.pod.IP("rule del from 10.78.0.3")
			f.expect("10.78.0.3", "10.78.0.11", "rdma0")
		})
	}
}

// answers asks by ARP for the addresses of rdma1 and then of rdma0. It returns the interfaces of the pod that answer
// for the first one. It waits for the right answers. As rdma0 answers in order, none of its answers is missed.
func (f *fabric) answers() (by []string) {
	f.Helper()
	names := map[string]string{} // by hardware address
	for _, name := range []string{"rdma0", "rdma1"} {
		names[strings.Fields(f.pod.IP("-br link show dev " + name))[2]] = name
	}
	fd := f.requestARP("10.78.0.3", "10.78.0.2")
	defer unix.Close(fd)
	for first, second := false, false; !first || !second; {
		b := make([]byte, 128)
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			f.Fatalf("wait for ARP replies: %v", err)
		}
		const reply = 2
		if n < 42 || binary.BigEndian.Uint16(b[20:]) != reply {
			continue
		}
		switch who := names[net.HardwareAddr(b[22:28]).String()]; netip.AddrFrom4([4]byte(b[28:32])).String() {
		case "10.78.0.3":
			by, first = append(by, who), first || who == "rdma1"
		case "10.78.0.2":
			second = second || who == "rdma0"
		}
	}
	slices.Sort(by)
	return by
}

// requestARP sends ARP requests for addresses from the far machine, and returns the socket that gets the replies.
func (f *fabric) requestARP(addresses ...string) (fd int) {
	f.Helper()
	err := f.far.Do(func() error {
		link, err := netlink.LinkByName("far0")
		if err == nil {
			fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ARP)))
		}
		if err == nil {
			err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20})
		}
		to := &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ARP), Ifindex: link.Attrs().Index}
		for _, a := range addresses {
			if err == nil {
				err = unix.Sendto(fd, arpRequest(link.Attrs().HardwareAddr, "10.78.0.11", a), 0, to)
			}
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return fd
}

func arpRequest(mac net.HardwareAddr, from, to string) []byte {
	var b bytes.Buffer
	b.Write(bytes.Repeat([]byte{0xff}, 6))
	b.Write(mac)
	b.Write([]byte{0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1})
	b.Write(mac)
	b.Write(net.ParseIP(from).To4())
	b.Write(make([]byte, 6))
	b.Write(net.ParseIP(to).To4())
	return b.Bytes()
}

func htons(n uint16) uint16 { return n<<8 | n>>8 }
