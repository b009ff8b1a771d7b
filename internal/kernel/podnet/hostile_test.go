package podnet_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/vishvananda/netlink"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// whole is what the kernel says of an interface of the host, but for its index and counters.
func whole(t *testing.T, n *podnettest.Namespace, name string) string {
	t.Helper()
	_, details, _ := strings.Cut(n.IP("-d -o link show dev "+name), ": ")
	return details + picture(t, n, name)
}

// TestReplaced: a pod with CAP_NET_ADMIN puts an interface of its own in the place of the one that it was given. The
// host gets back its own, and nothing of the pod.
func TestReplaced(t *testing.T) {
	for name, commands := range map[string][]string{
		"with its alias": {"link set rdma0 alias none", "link add fake type veth peer name fake2",
			"link set fake alias ALIAS"},
		"with its alias on the way": {"link set rdma0 alias none", "link add fake type veth peer name fake2",
			"link set fake alias ALIAS/unfinished"},
		"with all that it can copy": {
			"link set rdma0 down", "link set rdma0 name hidden alias none address 02:00:00:00:00:66",
			"link add rdma0 type veth peer name fake2",
			"link set rdma0 alias ALIAS address MAC mtu 1300", "link set rdma0 up",
		},
		"with the name for the way":  {"link add TRANSIT type veth peer name fake2"},
		"with the host's name":       {"link property add dev rdma0 altname ens1"},
		"with a name of the host":    {"link property add dev rdma0 altname eth0"},
		"that is a part of a bridge": {"link add br0 type bridge", "link set rdma0 master br0"},
		"that others are on":         {"link add link rdma0 name over type macvlan mode passthru", "link set over up"},
		"under another name":         {"link set rdma0 down", "link set rdma0 name other alias none"},
	} {
		t.Run(name, func(t *testing.T) {
			host, h := newHost(t)
			pod := podnettest.New(t)
			before, links := whole(t, host, "ens1"), host.IP("-br link")
			w := want(podnet.Move, nil)
			o, s := attach(t, h, pod, w)
			for _, c := range commands {
				pod.IP(strings.NewReplacer("ALIAS", w.Alias, "MAC", s.MAC, "TRANSIT", fmt.Sprint("_rdma", o.Index)).Replace(c))
			}
			must.NoError(t, h.Detach(pod.Path(), o, w))
			test.Eq(t, before, whole(t, host, "ens1"), test.Sprint("the host's interface"))
			if after := host.IP("-br link"); strings.Count(after, "\n") != strings.Count(links, "\n") {
				t.Errorf("the host had\n%s\nand has\n%s", links, after)
			}
		})
	}
}

// TestDestroyed: of an interface that a pod could destroy, and made again in its image, the host gets nothing.
func TestDestroyed(t *testing.T) {
	for name, peer := range map[string]string{"another pair": "", "of the same number": "index PEER"} {
		t.Run(name, func(t *testing.T) {
			host, h := newHost(t)
			pod := podnettest.New(t)
			w := want(podnet.Move, nil)
			o, s := attach(t, h, pod, w)
			number, _, _ := strings.Cut(host.IP("-o link show dev w-ens1"), ":")
			pod.IP("link del rdma0")
			links := host.IP("-br link")
			pod.IP(strings.ReplaceAll(fmt.Sprintf("link add rdma0 index %d address %s type veth peer name fake %s", o.Index,
				s.MAC, peer), "PEER", number))
			pod.IP("link set rdma0 alias " + w.Alias)
			test.ErrorIs(t, h.Detach(pod.Path(), o, w), podnet.ErrNotBack)
			test.Eq(t, links, host.IP("-br link"), test.Sprint("the host"))
		})
	}
}

// TestNotTakenForIt: what a pod has put in the way is not taken for the interface that it is to have.
func TestNotTakenForIt(t *testing.T) {
	for _, mode := range []string{podnet.Move, podnet.Macvlan} {
		t.Run(mode, func(t *testing.T) {
			_, h := newHost(t)
			pod := podnettest.New(t)
			w := want(mode, nil)
			pod.IP("link add rdma0 type veth peer name other")
			pod.IP("link set rdma0 alias " + w.Alias)
			o, err := h.Inspect("ens1", "", mode)
			must.NoError(t, err)
			if _, err := h.Attach(pod.Path(), o, w); !errors.Is(err, podnet.ErrTaken) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestChanged: what a pod with CAP_NET_ADMIN can change on the interface is as the host had it.
func TestChanged(t *testing.T) {
	for name, commands := range map[string][]string{
		"address": {"link set rdma0 address 02:00:00:00:00:66"},
		"MTU":     {"link set rdma0 mtu 900"},
		"names": {"link property add dev rdma0 altname mine",
			"link property del dev rdma0 altname rail1-of-host"},
		"alias":             {"link set rdma0 alias mine"},
		"promiscuous":       {"link set rdma0 promisc on"},
		"all of multicast":  {"link set rdma0 allmulticast on"},
		"no ARP":            {"link set rdma0 arp off"},
		"no multicast":      {"link set rdma0 multicast off"},
		"transmit queue":    {"link set rdma0 txqueuelen 7"},
		"group":             {"link set rdma0 group 66"},
		"dormant":           {"link set rdma0 mode dormant"},
		"sizes of segments": {"link set rdma0 gso_max_size 4096 gso_max_segs 3 gro_max_size 4096"},
		"down":              {"link set rdma0 down"},
	} {
		t.Run(name, func(t *testing.T) {
			host, h := newHost(t)
			host.IP("link property add dev ens1 altname rail1-of-host")
			pod := podnettest.New(t)
			before := whole(t, host, "ens1")
			w := want(podnet.Move, nil)
			o, _ := attach(t, h, pod, w)
			for _, c := range commands {
				pod.IP(c)
			}
			must.NoError(t, h.Detach(pod.Path(), o, w))
			test.Eq(t, before, whole(t, host, "ens1"), test.Sprint("the host's interface"))
		})
	}
}

// TestLargeInterface: an interface with more alternative names than the netlink library can read is used and restored
// like others, and hides none. The host has such a one after the end of a pod that gave it the names.
func TestLargeInterface(t *testing.T) {
	host, h := newHost(t)
	host.Wire("ens2")
	w := want(podnet.Move, nil)
	o, err := h.Inspect("ens1", "", w.Mode)
	must.NoError(t, err)
	before := whole(t, host, "ens1")
	host.AltNames(600, "ens1")
	err = host.Do(func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			test.NotEq(t, "ens1", l.Attrs().Name,
				test.Sprint("the netlink library reads the interface: it is too small for this test"))
		}
		return err
	})
	t.Logf("the netlink library: %v", err)
	for _, mode := range []string{podnet.Move, podnet.Macvlan} {
		for _, name := range []string{"ens1", "ens2"} {
			if _, err := h.Usable(name, "", mode, 0); err != nil {
				t.Errorf("%s, %s: %v", name, mode, err)
			}
		}
	}
	pod := podnettest.New(t)
	if _, err := h.Attach(pod.Path(), o, w); err != nil {
		t.Fatal(err)
	}
	must.NoError(t, h.Detach(pod.Path(), o, w))
	test.Eq(t, before, whole(t, host, "ens1"), test.Sprint("the host's interface"))
}

// TestRulesOfThePod: when a pod goes on, the driver removes the rules that it made, each by its value, and leaves those
// that the pod made at the same table. When the pod has ended it removes none, because they end with the namespace.
func TestRulesOfThePod(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		_, h := newHost(t)
		pod := podnettest.New(t)
		w := want(podnet.Macvlan, nil)
		o, _ := attach(t, h, pod, w)
		index, _, _ := strings.Cut(pod.IP("-o link show dev rdma0"), ":")
		i, _ := strconv.Atoi(index)
		const mine = 50
		pod.Rules(mine, 40_000, 1_000_000+i)
		want := mine
		if !goesOn {
			want += strings.Count(pod.IP("-4 rule"), "from 10.9.0.2 lookup")
			w.Addresses = nil
		}
		must.NoError(t, h.Detach(pod.Path(), o, w))
		test.Eq(t, want, strings.Count(pod.IP("-4 rule"), "lookup "+strconv.Itoa(1_000_000+i)),
			test.Sprintf("the pod goes on: %v; it", goesOn))
	}
}
