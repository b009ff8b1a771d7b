package podnet_test

import (
	"fmt"
	"net/netip"
	"os"
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

// TestRouter: what a router on the fabric announces gives a pod neither an address nor a route.
func TestRouter(t *testing.T) {
	for _, mode := range []string{podnet.Move, podnet.Macvlan, podnet.Ipvlan} {
		t.Run(mode, func(t *testing.T) {
			kind(t, mode)
			host, h := newHost(t)
			pod := podnettest.New(t)
			if _, s := attach(t, h, pod, want(mode, nil)); s.IPv6 != "" {
				t.Fatal(s.IPv6)
			}
			host.IP("addr add fe80::99/64 dev w-ens1 nodad")
			announced := func() string {
				return pod.IP("-6 addr show dev rdma0 dynamic") + pod.IP("-6 route show proto ra")
			}
			announce(t, host, "fd66::")
			eventually(t, "the announcement arrives", func() bool { return announcements(t, pod) > 0 })
			test.Eq(t, "", announced(), test.Sprint("a router has given the pod"))
			sysctl(t, pod, "rdma0", "ipv6/accept_ra", "1") // without the setting it does
			announce(t, host, "fd77::")
			eventually(t, "the interface accepts an announcement", func() bool {
				got := announced()
				return strings.Contains(got, "inet6 fd77:") && strings.Contains(got, "default via fe80::99 dev rdma0")
			})
			test.StrNotContains(t, announced(), "fd66:", test.Sprint("the first announcement was accepted"))
		})
	}
}

// announce has a router at the wire of the host's interface announce itself and a network.
func announce(t *testing.T, host *podnettest.Namespace, network string) {
	t.Helper()
	const router, lifetime, prefix, hopLimit = 134, "\x07\x08", 3, 255 // RFC 4861, 4.2 and 4.6.2
	message := string([]byte{router, 0, 0, 0, 64, 0}) + lifetime + strings.Repeat("\x00", 8) +
		string([]byte{prefix, 4, 64, 0xc0}) + strings.Repeat("\x00\x00\x0e\x10", 2) + strings.Repeat("\x00", 4)
	at := netip.MustParseAddr(network).As16()
	err := host.Do(func() error {
		link, err := netlink.LinkByName("w-ens1")
		if err != nil {
			return err
		}
		s, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		from := &unix.SockaddrInet6{Addr: netip.MustParseAddr("fe80::99").As16(), ZoneId: uint32(link.Attrs().Index)}
		if err := unix.Bind(s, from); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, hopLimit); err != nil {
			return err
		}
		to := &unix.SockaddrInet6{Addr: netip.MustParseAddr("ff02::1").As16(), ZoneId: from.ZoneId}
		return unix.Sendto(s, append([]byte(message), at[:]...), 0, to)
	})
	must.NoError(t, err)
}

// announcements counts the announcements of routers that the pod's interface has received.
func announcements(t *testing.T, pod *podnettest.Namespace) (n int) {
	t.Helper()
	if err := pod.Do(func() error {
		data, err := os.ReadFile("/proc/thread-self/net/dev_snmp6/rdma0")
		_, rest, _ := strings.Cut(string(data), "Icmp6InRouterAdvertisements")
		fmt.Sscan(rest, &n)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		must.False(t, time.Now().After(deadline), must.Sprintf("not within a minute: %s", what))
	}
}
