package podnet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// says fails the test unless an error has all the texts.
func says(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
}

// TestIpvlan: an ipvlan has the hardware address of the host's interface, passes packets to its siblings, and does the
// work of layer 2.
func TestIpvlan(t *testing.T) {
	kind(t, podnet.Ipvlan)
	host, h := newHost(t)
	pod := podnettest.New(t)
	_, state := attach(t, h, pod, want(podnet.Ipvlan, nil))
	if mac := strings.Fields(host.IP("-br link show dev ens1"))[2]; state.MAC != mac {
		t.Errorf("hardware address %s, want %s", state.MAC, mac)
	}
	if out := pod.IP("-d link show dev rdma0"); !strings.Contains(out, "ipvlan  mode l2 bridge") {
		t.Errorf("it is %s", out)
	}
}

// TestOtherKind: macvlans and ipvlans do not share an interface. Who has the other kind is said before a pod waits for
// its interface, where the host can know, and when the kernel refuses it.
func TestOtherKind(t *testing.T) {
	kind(t, podnet.Ipvlan)
	for mode, other := range map[string]string{podnet.Macvlan: "ipvlan", podnet.Ipvlan: "macvlan"} {
		for where, who := range map[string]string{"host": "the host's there has a " + other, "pod": "another network namespace"} {
			t.Run(mode+", other on the "+where, func(t *testing.T) {
				host, h := newHost(t)
				pod, has := podnettest.New(t), podnettest.New(t)
				o, err := h.Inspect("ens1", "", mode)
				if err != nil {
					t.Fatal(err)
				}
				host.IP("link add link ens1 name there type " + other)
				if where == "host" {
					_, err := h.Usable("ens1", "", mode)
					says(t, err, who, "use network.mode "+other)
				} else {
					host.IP(fmt.Sprintf("link set there netns %d", has.Process()))
				}
				_, err = h.Attach(pod.Path(), o, want(mode, nil))
				says(t, err, unix.EBUSY.Error(), who, "use network.mode "+other)
				if err := h.Detach(pod.Path(), o, want(mode, nil)); err != nil {
					t.Error(err)
				}
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
				if on, err := h.Usable(name, "", mode); on != "bond0" || err != nil {
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
				if out := pod.IP("-br link show dev rdma0"); !strings.HasPrefix(out, wanted) {
					t.Errorf("it is %s, want %s", out, wanted)
				}
				if err := h.Detach(pod.Path(), o, want(mode, nil)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, names(host)); diff != "" {
					t.Errorf("on the host (-before +after):\n%s", diff)
				}
				_, err = h.Usable(name, "", podnet.Move)
				says(t, err, "the host uses it: it is a ", "bond")
				host.IP("link add br0 type bridge")
				host.IP("link set bond0 master br0")
				_, err = h.Usable(name, "", mode)
				says(t, err, "the host uses it: it is a part of br0")
			})
		}
	}
}

// TestBondTraffic: pods on one bond reach each other.
func TestBondTraffic(t *testing.T) {
	_, h := bonded(t)
	traffic(t, h, podnet.Macvlan)
}
