package podnet_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// newHost is a host with an HCA's interface ens1, whose wire ends at "wire", and the node's eth0.
func newHost(t *testing.T) (*podnettest.Namespace, *podnet.Host) {
	t.Helper()
	n := podnettest.New(t)
	n.IP("link add eth0 type veth peer name eth0-wire")
	n.IP("link set eth0 up")
	n.IP("link set eth0-wire up")
	n.IP("addr add 192.0.2.10/24 dev eth0")
	n.IP("route add default via 192.0.2.1")
	n.Wire("ens1")
	n.IP("link set ens1 mtu 1400 alias rail-1")
	n.IP("addr add 10.1.0.1/24 dev ens1")
	n.IP("addr add fd00::1/64 dev ens1 nodad")
	n.IP("route add 10.2.0.0/16 via 10.1.0.254")
	n.IP("route add default via 10.1.0.254 table 101")
	return n, podnet.On(n.Namespace, "rdma.dev", []netip.Addr{netip.MustParseAddr("192.0.2.10")})
}

// picture is what a namespace says of an interface.
func picture(t *testing.T, n *podnettest.Namespace, name string) string {
	t.Helper()
	link := n.IP("-d -o link show dev " + name)
	var kept []string
	for _, word := range []string{"mtu", "alias", "link/ether"} {
		if _, rest, ok := strings.Cut(link, word+" "); ok {
			kept = append(kept, word+" "+strings.FieldsFunc(rest,
				func(r rune) bool { return r == ' ' || r == '\\' || r == '\n' })[0])
		}
	}
	kept = append(kept, fmt.Sprint("up ", strings.Contains(link, ",UP") || strings.Contains(link, "<UP")))
	for address := range strings.Lines(n.IP("-o addr show dev " + name)) {
		if !strings.Contains(address, " fe80:") {
			_, address, _ = strings.Cut(address, name) // behind its index
			kept = append(kept, address)
		}
	}
	for route := range strings.Lines(n.IP("route show table all dev " + name)) {
		if !strings.Contains(route, "proto kernel") { // those come some time after the address
			kept = append(kept, route)
		}
	}
	kept = append(kept, n.IP("neigh show nud permanent dev "+name))
	return strings.Join(kept, "\n")
}

func rulesOf(n *podnettest.Namespace) string { return n.IP("-4 rule") + n.IP("-6 rule") }

func want(mode string, change func(*podnet.Want)) podnet.Want {
	w := podnet.Want{
		Mode: mode, Name: "rdma0", Alias: "rdma.dev/claim/1/nic",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.9.0.2/24"), netip.MustParsePrefix("fd09::2/64")},
		Routes: []podnet.Route{
			{Destination: netip.MustParsePrefix("10.10.0.0/16"), Gateway: netip.MustParseAddr("10.9.0.1")},
			{Destination: netip.MustParsePrefix("10.11.0.0/16")},
		},
		MTU: 1300,
	}
	if change != nil {
		change(&w)
	}
	return w
}

// kind skips a test of a mode whose interfaces this kernel cannot make.
func kind(t *testing.T, mode string) {
	t.Helper()
	if mode != podnet.Move {
		podnettest.Kind(t, mode)
	}
}

func attach(t *testing.T, h *podnet.Host, pod *podnettest.Namespace, w podnet.Want) (podnet.Original, podnet.State) {
	t.Helper()
	o, err := h.Inspect("ens1", "", w.Mode)
	must.NoError(t, err)
	s, err := h.Attach(pod.Path(), o, w)
	must.NoError(t, err)
	return o, s
}

// TestAttach: the pod has the interface with all that was wanted, twice is like once, and after
// it the host is as it was.
func TestAttach(t *testing.T) {
	for _, mode := range []string{podnet.Move, podnet.Macvlan, podnet.Ipvlan} {
		t.Run(mode, func(t *testing.T) {
			kind(t, mode)
			host, h := newHost(t)
			pod := podnettest.New(t)
			pod.IP("link add eth0 type veth peer name wire")
			host.IP("link add rdma0 type veth peer name other") // the name is taken on the host
			before, rules := picture(t, host, "ens1"), rulesOf(pod)
			w := want(mode, nil)
			o, state := attach(t, h, pod, w)
			again, err := h.Attach(pod.Path(), o, w)
			if diff := cmp.Diff(state, again); diff != "" || err != nil {
				t.Errorf("attached again: %v\n%s", err, diff)
			}
			mac := strings.TrimSpace(pod.IP("-br link show dev rdma0"))
			wanted := podnet.State{
				Name: "rdma0", MAC: state.MAC, MTU: 1300, Addresses: []string{"10.9.0.2/24", "fd09::2/64"},
			}
			if !cmp.Equal(state, wanted) || !strings.Contains(mac, state.MAC) || !strings.Contains(mac, "UP") {
				t.Errorf("state %+v, and the kernel says %s", state, mac)
			}
			routes := pod.IP("route show dev rdma0")
			if !strings.Contains(routes, "10.10.0.0/16 via 10.9.0.1") || !strings.Contains(routes, "10.11.0.0/16 scope link") {
				t.Errorf("routes are %s", routes)
			}
			if out, err := host.Try("link show dev ens1"); (err == nil) == (mode == podnet.Move) {
				t.Errorf("on the host: %s", out)
			}
			for range 2 {
				must.NoError(t, h.Detach(pod.Path(), o, w))
			}
			test.Eq(t, before, picture(t, host, "ens1"), test.Sprint("the host's interface"))
			test.Eq(t, rules, rulesOf(pod), test.Sprint("the pod's rules"))
			if left := pod.IP("-br link"); strings.Contains(left, "rdma") || strings.Contains(host.IP("-br link"), "_rdma") {
				t.Errorf("left in the pod: %s", left)
			}
		})
	}
}

// TestAttachFails: the pod keeps what is its own, and what was begun can be taken back.
func TestAttachFails(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*podnet.Want)
		says   string
		is     error
	}{
		"its name is taken": {func(w *podnet.Want) { w.Name = "mine" }, "network.interface", podnet.ErrTaken},
		"a route of the pod": {func(w *podnet.Want) {
			w.Routes = []podnet.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0"),
				Gateway: netip.MustParseAddr("10.9.0.1")}}
		}, "add route to 0.0.0.0/0: the pod has a route there already", nil},
		"a gateway nowhere": {func(w *podnet.Want) {
			w.Routes = []podnet.Route{{Destination: netip.MustParsePrefix("10.10.0.0/16"),
				Gateway: netip.MustParseAddr("10.99.0.1")}}
		}, "add route to 10.10.0.0/16 to the interface's own table: its gateway 10.99.0.1 is in no network of the " +
			"interface's addresses", unix.ENETUNREACH},
		"a gateway of its own nowhere": {func(w *podnet.Want) { w.Gateways = []netip.Addr{netip.MustParseAddr("fd99::1")} },
			"its gateway fd99::1 is in no network", unix.EHOSTUNREACH},
		"an MTU above the host's": {func(w *podnet.Want) { w.MTU = 100000 }, "set its MTU to 100000", nil},
	} {
		for _, mode := range []string{podnet.Move, podnet.Macvlan, podnet.Ipvlan} {
			t.Run(name+", "+mode, func(t *testing.T) {
				kind(t, mode)
				host, h := newHost(t)
				pod := podnettest.New(t)
				pod.IP("link add mine type veth peer name wire")
				pod.IP("addr add 10.20.0.2/24 dev mine")
				pod.IP("link set mine up")
				pod.IP("link set wire up")
				pod.IP("route add default via 10.20.0.1")
				inPod, onHost := picture(t, pod, "mine")+rulesOf(pod), picture(t, host, "ens1")
				w := want(mode, tc.change)
				o, err := h.Inspect("ens1", "", mode)
				must.NoError(t, err)
				if _, err = h.Attach(pod.Path(), o, w); err == nil || !strings.Contains(err.Error(), tc.says) || tc.is != nil &&
					!errors.Is(err, tc.is) {
					t.Errorf("error %v", err)
				}
				must.NoError(t, h.Detach(pod.Path(), o, w))
				test.Eq(t, inPod+onHost, picture(t, pod, "mine")+rulesOf(pod)+picture(t, host, "ens1"),
					test.Sprint("after it"))
			})
		}
	}
}

// TestUsable: what the host needs itself stays.
func TestUsable(t *testing.T) {
	host, _ := newHost(t)
	host.IP("link add br0 type bridge")
	host.IP("link add port type veth peer name port-wire")
	host.IP("link set port master br0")
	host.IP("link add below type veth peer name below-wire")
	host.IP("link add link below name above type macvlan mode bridge")
	host.IP("link add node type veth peer name node-wire")
	host.IP("addr add 192.0.2.77/32 dev node")
	for i, leg := range []string{"leg", "leg2"} {
		host.Wire(leg)
		host.IP(fmt.Sprintf("addr add 10.40.%d.1/24 dev %s", i, leg))
	}
	host.IP("tuntap add dev tap0 mode tap")
	pod := podnettest.New(t)
	host.IP(fmt.Sprintf("link add far type veth peer name near netns %d", pod.Process()))
	host.IP("route add 10.41.0.0/16 table 9 nexthop via 10.40.0.2 dev leg nexthop via 10.40.1.2 dev leg2")
	h := podnet.On(host.Namespace, "rdma.dev", []netip.Addr{netip.MustParseAddr("192.0.2.77")})
	for _, tc := range []struct{ name, mode, says string }{
		{"ens1", podnet.Move, ""},
		{"ens1", podnet.Macvlan, ""},
		{"eth0", podnet.Move, "the host uses it: it has the default route"},
		{"eth0", podnet.Macvlan, ""},
		{"node", podnet.Move, "the host uses it: it has the node's address 192.0.2.77"},
		{"node", podnet.Macvlan, ""},
		{"port", podnet.Move, "the host uses it: it is a part of br0"},
		{"port", podnet.Macvlan, "the host uses it: it is a part of br0"},
		{"br0", podnet.Macvlan, "it is a bridge"},
		{"below", podnet.Move, "the host uses it: macvlan above is on top of it"},
		{"below", podnet.Macvlan, ""},
		{"leg", podnet.Move, "the host uses it: it is one of several interfaces of the route to 10.41.0.0/16"},
		{"leg", podnet.Macvlan, ""},
		{"lo", podnet.Move, "the kernel does not report its device"},
		{"tap0", podnet.Move, "it is a virtual interface, which a pod could replace by its own: use network.mode " +
			"macvlan (tuntap)"},
		{"above", podnet.Move, "it is a virtual interface"},
		{"far", podnet.Move, "its other end is in another network namespace"},
		{"far", podnet.Macvlan, ""},
		{"gone", podnet.Move, `network interface "gone": the host has none of that name now`},
	} {
		_, err := h.Usable(tc.name, "0000:3b:00.0", tc.mode, 0)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s, %s: %v, want %q", tc.name, tc.mode, err, tc.says)
		}
	}
}

// TestHalfWay: whatever moment somebody dies at, another one finishes, or takes it back.
func TestHalfWay(t *testing.T) {
	for name, leave := range map[string]func(host, pod *podnettest.Namespace, index int){
		"named for the way": func(host, _ *podnettest.Namespace, index int) {
			host.IP("link set ens1 down")
			host.IP(fmt.Sprintf("link set ens1 name _rdma%d", index))
		},
		"moved": func(host, pod *podnettest.Namespace, index int) {
			host.IP("link set ens1 down alias rdma.dev/claim/1/nic/unfinished")
			host.IP(fmt.Sprintf("link set ens1 name _rdma%d netns %d", index, pod.Process()))
		},
		"moved and named": func(host, pod *podnettest.Namespace, _ int) {
			host.IP("link set ens1 down alias rdma.dev/claim/1/nic/unfinished")
			host.IP(fmt.Sprintf("link set ens1 name rdma0 netns %d", pod.Process()))
		},
		"back under another name": func(host, _ *podnettest.Namespace, _ int) {
			host.IP("link set ens1 down alias rdma.dev/claim/1/nic")
			host.IP("link set ens1 name dev7")
		},
	} {
		for _, finish := range []bool{true, false} {
			t.Run(fmt.Sprint(name, finish), func(t *testing.T) {
				host, h := newHost(t)
				pod := podnettest.New(t)
				before := picture(t, host, "ens1")
				o, err := h.Inspect("ens1", "", podnet.Move)
				must.NoError(t, err)
				leave(host, pod, o.Index)
				w := want(podnet.Move, nil)
				if finish && !strings.HasPrefix(name, "back") {
					if _, err := h.Attach(pod.Path(), o, w); err != nil {
						t.Fatal(err)
					}
				}
				must.NoError(t, h.Detach(pod.Path(), o, w))
				test.Eq(t, before, picture(t, host, "ens1"), test.Sprint("the host's interface"))
			})
		}
	}
}

// TestNamespaceEnded: nothing is there to take it out of, and the interface is not back.
func TestNamespaceEnded(t *testing.T) {
	_, h := newHost(t)
	pod := podnettest.New(t)
	w := want(podnet.Move, nil)
	o, _ := attach(t, h, pod, w)
	test.ErrorIs(t, h.Detach("/nonexistent", o, w), podnet.ErrNotBack)
	w.Mode = podnet.Macvlan
	test.NoError(t, h.Detach("/nonexistent", o, w))
	if _, err := h.Attach("/proc/self/ns/net", o, w); err == nil {
		t.Log("the test's own namespace is another one than the host's of the test")
	}
}

// TestTraffic: two pods reach each other by interfaces on top of one of the host.
func TestTraffic(t *testing.T) {
	for _, mode := range []string{podnet.Macvlan, podnet.Ipvlan} {
		t.Run(mode, func(t *testing.T) {
			kind(t, mode)
			_, h := newHost(t)
			traffic(t, h, mode, 0)
		})
	}
}

func traffic(t *testing.T, h *podnet.Host, mode string, vlan int) {
	t.Helper()
	a, b := podnettest.New(t), podnettest.New(t)
	for pod, address := range map[*podnettest.Namespace]string{a: "10.9.0.1/24", b: "10.9.0.2/24"} {
		attach(t, h, pod, want(mode, func(w *podnet.Want) {
			w.Addresses, w.Routes, w.VLAN = []netip.Prefix{netip.MustParsePrefix(address)}, nil, vlan
		}))
	}
	reach(t, a, b, "10.9.0.2")
}

// reach fails the test unless the first namespace reaches the second one by its address.
func reach(t *testing.T, a, b *podnettest.Namespace, address string) {
	t.Helper()
	var listener net.Listener
	must.NoError(t, b.Do(func() (err error) { listener, err = net.Listen("tcp", address+":0"); return err }))
	defer listener.Close()
	err := a.Do(func() error {
		c, err := net.DialTimeout("tcp", listener.Addr().String(), time.Minute)
		if err == nil {
			c.Close()
		}
		return err
	})
	test.NoError(t, err)
}
