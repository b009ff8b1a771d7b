package podnet_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// says fails the test unless an error has all the texts.
func says(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		test.ErrorContains(t, err, text)
	}
}

// TestIpvlan: an ipvlan has the hardware address of the host's interface, passes packets to its siblings, and does the
// work of layer 2.
func TestIpvlan(t *testing.T) {
	kind(t, podnet.Ipvlan)
	host, h := newHost(t)
	pod := podnettest.New(t)
	_, state := attach(t, h, pod, want(podnet.Ipvlan, nil))
	test.Eq(t, strings.Fields(host.IP("-br link show dev ens1"))[2], state.MAC, test.Sprint("hardware address"))
	test.StrContains(t, pod.IP("-d link show dev rdma0"), "ipvlan  mode l2 bridge", test.Sprint("it"))
}

// TestOtherKind: macvlans and ipvlans do not share an interface. Who has the other kind is said before a pod waits for
// its interface, where the host can know, and when the kernel refuses it.
func TestOtherKind(t *testing.T) {
	kind(t, podnet.Ipvlan)
	for mode, other := range map[string]string{podnet.Macvlan: "ipvlan", podnet.Ipvlan: "macvlan"} {
		for where, who := range map[string]string{
			"host": "the host's there has a " + other, "pod": "another network namespace",
		} {
			t.Run(mode+", other on the "+where, func(t *testing.T) {
				host, h := newHost(t)
				pod, has := podnettest.New(t), podnettest.New(t)
				o, err := h.Inspect("ens1", "", mode)
				must.NoError(t, err)
				host.IP("link add link ens1 name there type " + other)
				if where == "host" {
					_, err := h.Usable("ens1", "", mode, 0)
					says(t, err, who, "use network.mode "+other)
				} else {
					host.IP(fmt.Sprintf("link set there netns %d", has.Process()))
				}
				_, err = h.Attach(pod.Path(), o, want(mode, nil))
				says(t, err, unix.EBUSY.Error(), who, "use network.mode "+other)
				test.NoError(t, h.Detach(pod.Path(), o, want(mode, nil)))
			})
		}
	}
}

// names are those of a namespace's interfaces.
func names(n *podnettest.Namespace) (all []string) {
	for line := range strings.Lines(n.IP("-br link")) {
		all = append(all, strings.Fields(line)[0])
	}
	return all
}

// bonded is a host whose interface ens1 is a slave of bond0.
func bonded(t *testing.T) (*podnettest.Namespace, *podnet.Host) {
	t.Helper()
	podnettest.Kind(t, "bond")
	host, h := newHost(t)
	host.IP("link add bond0 type bond mode active-backup miimon 100")
	host.IP("link set ens1 down")
	host.IP("link set ens1 master bond0")
	host.IP("link set bond0 up mtu 1400")
	return host, h
}

// TestBond: the new interface of an HCA whose interface is a slave of a bond, or a bond, is on top of the bond. Neither
// is moved, and a bond in a bridge is the bridge's.
func TestBond(t *testing.T) {
	for _, name := range []string{"ens1", "bond0"} {
		for _, mode := range []string{podnet.Macvlan, podnet.Ipvlan} {
			t.Run(name+", "+mode, func(t *testing.T) {
				kind(t, mode)
				host, h := bonded(t)
				pod, before := podnettest.New(t), names(host)
				if on, err := h.Usable(name, "", mode, 0); on != "bond0" || err != nil {
					t.Errorf("on top of %q, %v", on, err)
				}
				o, err := h.Inspect(name, "", mode)
				if err != nil || o.Name != "bond0" {
					t.Fatalf("recorded is %q, %v", o.Name, err)
				}
				if _, err := h.Attach(pod.Path(), o, want(mode, nil)); err != nil {
					t.Fatal(err)
				}
				wanted := fmt.Sprintf("rdma0@if%d", o.Index)
				test.StrHasPrefix(t, wanted, pod.IP("-br link show dev rdma0"), test.Sprint("it"))
				must.NoError(t, h.Detach(pod.Path(), o, want(mode, nil)))
				test.Eq(t, before, names(host), test.Sprint("on the host"))
				_, err = h.Usable(name, "", podnet.Move, 0)
				says(t, err, "the host uses it: it is a ", "bond")
				host.IP("link add br0 type bridge")
				host.IP("link set bond0 master br0")
				_, err = h.Usable(name, "", mode, 0)
				says(t, err, "the host uses it: it is a part of br0")
			})
		}
	}
}

// TestBondTraffic: pods on one bond reach each other.
func TestBondTraffic(t *testing.T) {
	_, h := bonded(t)
	traffic(t, h, podnet.Macvlan, 0)
}

// inVLAN is a wish for an interface in VLAN 100.
func inVLAN(mode string, change func(*podnet.Want)) podnet.Want {
	w := want(mode, change)
	w.VLAN = 100
	return w
}

func vlans(n *podnettest.Namespace) string { return n.IP("-d link show type vlan") }

// TestVLAN: the driver makes a missing VLAN interface on top of the HCA's interface or its bond, uses it for the next
// pod, and removes it.
func TestVLAN(t *testing.T) {
	podnettest.Kind(t, "vlan")
	for _, mode := range []string{podnet.Macvlan, podnet.Ipvlan} {
		t.Run(mode, func(t *testing.T) {
			kind(t, mode)
			host, h := newHost(t)
			first, second := podnettest.New(t), podnettest.New(t)
			before, w := names(host), inVLAN(mode, nil)
			if on, err := h.Usable("ens1", "", mode, w.VLAN); on != "ens1, VLAN 100" || err != nil {
				t.Errorf("on top of %q, %v", on, err)
			}
			o, err := h.Inspect("ens1", "", mode)
			must.NoError(t, err)
			for range 2 {
				if _, err := h.Attach(first.Path(), o, w); err != nil {
					t.Fatal(err)
				}
			}
			if out := vlans(host); !strings.Contains(out, "vlan protocol 802.1Q id 100") || !strings.Contains(out, "@ens1:") ||
				!strings.Contains(out, "alias rdma.dev/vlan") || !strings.Contains(out, ",UP") {
				t.Errorf("the VLAN interface is %s", out)
			}
			w2 := inVLAN(mode, func(w *podnet.Want) { w.Addresses, w.Routes = nil, nil })
			if _, err := h.Attach(second.Path(), o, w2); err != nil {
				t.Fatal(err)
			}
			if added := len(names(host)) - len(before); added != 1 {
				t.Errorf("the host has %d interfaces more: %v", added, names(host))
			}
			if on, err := h.Usable("ens1", "", mode, w.VLAN); !strings.HasPrefix(on, "_rdmavlan") || err != nil {
				t.Errorf("on top of %q, %v", on, err)
			}
			for pod, w := range map[*podnettest.Namespace]podnet.Want{first: w, second: w2} {
				must.NoError(t, h.Detach(pod.Path(), o, w))
			}
			for range 2 {
				must.NoError(t, h.RemoveVLAN(o, w.VLAN))
			}
			test.Eq(t, before, names(host), test.Sprint("on the host"))
		})
	}
}

// TestVLANOfTheSite: an existing VLAN interface is used and stays as it is, also one below which the driver's pods have
// ended. What the host put on top of the driver's one keeps it.
func TestVLANOfTheSite(t *testing.T) {
	podnettest.Kind(t, "vlan")
	host, h := newHost(t)
	host.IP("link add link ens1 name storage mtu 1280 type vlan id 100")
	host.IP("link add link ens1 name other type vlan id 200")
	host.IP("link set storage up alias ours")
	before := picture(t, host, "storage")
	pod := podnettest.New(t)
	w := inVLAN(podnet.Macvlan, func(w *podnet.Want) { w.MTU = 0 })
	o, state := attach(t, h, pod, w)
	if on, err := h.Usable("ens1", "", podnet.Macvlan, 100); on != "storage" || err != nil {
		t.Errorf("on top of %q, %v", on, err)
	}
	test.Eq(t, 1280, state.MTU, test.Sprint("MTU"))
	w.MTU = 1300
	_, err := h.Attach(pod.Path(), o, w)
	says(t, err, "set its MTU to 1300: that of the host's storage is only 1280")
	must.NoError(t, h.Detach(pod.Path(), o, w))
	must.NoError(t, h.RemoveVLAN(o, 100))
	test.Eq(t, before, picture(t, host, "storage"), test.Sprint("the site's VLAN interface"))
	host.IP("link add br0 type bridge")
	host.IP("link set storage master br0")
	_, err = h.Usable("ens1", "", podnet.Macvlan, 100)
	says(t, err, "it is a part of br0")
	_, err = h.Attach(pod.Path(), o, w)
	says(t, err, "it is a part of br0")

	w.VLAN, w.MTU = 300, 0
	if _, err := h.Attach(pod.Path(), o, w); err != nil {
		t.Fatal(err)
	}
	must.NoError(t, h.Detach(pod.Path(), o, w))
	host.IP("link add link _rdmavlan0 name above type macvlan")
	must.NoError(t, h.RemoveVLAN(o, 300))
	host.IP("link show dev above")
}

// TestVLANFails: a VLAN interface that cannot be set up says what to do, and can be removed.
func TestVLANFails(t *testing.T) {
	podnettest.Kind(t, "vlan")
	host, h := newHost(t)
	before, pod, w := names(host), podnettest.New(t), inVLAN(podnet.Macvlan, nil)
	o, err := h.Inspect("ens1", "", podnet.Macvlan)
	must.NoError(t, err)
	host.IP("link set ens1 down")
	_, err = h.Attach(pod.Path(), o, w)
	says(t, err, "make the interface of VLAN 100 on top of it: set it up: network is down", "ip link set ens1 up")
	must.NoError(t, h.RemoveVLAN(o, 100))
	test.Eq(t, before, names(host), test.Sprint("on the host"))
}

// TestVLANTraffic: pods of one VLAN reach each other, also on top of a bond, and their packets carry its tag.
func TestVLANTraffic(t *testing.T) {
	podnettest.Kind(t, "vlan")
	host, h := newHost(t)
	a, b := podnettest.New(t), podnettest.New(t)
	host.IP("link add link w-ens1 name tagged type vlan id 100")
	host.IP("link set tagged netns " + fmt.Sprint(b.Process()))
	b.IP("addr add 10.9.0.2/24 dev tagged")
	b.IP("link set tagged up")
	w := inVLAN(podnet.Macvlan, func(w *podnet.Want) { w.Routes = nil })
	w.Addresses = []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24")}
	attach(t, h, a, w)
	reach(t, a, b, "10.9.0.2")
	_, h = bonded(t)
	traffic(t, h, podnet.Macvlan, 100)
}
