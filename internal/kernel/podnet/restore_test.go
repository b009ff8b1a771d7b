package podnet_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
)

// TestRestore: what sites give to the interfaces of HCAs is there again after a pod had one.
func TestRestore(t *testing.T) {
	for name, commands := range map[string][]string{
		"a gateway that a route leads to": {
			"addr add 10.5.0.1/32 dev ens1", "route add 10.5.0.254 dev ens1 scope link",
			"route add default via 10.5.0.254 table 102 metric 7",
			"route add 10.6.0.0/16 via 10.5.0.254 src 10.5.0.1",
		},
		"a gateway on the link": {"addr add 10.5.0.1/32 dev ens1", "route add 10.6.0.0/16 via 169.254.1.1 dev ens1 onlink"},
		"a gateway of IPv6": {"route add fd01::/64 via fd00::fe", "route add fd02::1 dev ens1",
			"route add fd03::/64 via fd02::1 dev ens1"},
		"an address with a peer": {"addr add 10.7.0.1 peer 10.7.0.2/32 dev ens1"},
		"as network managers do": {"addr add 10.7.0.1/24 brd + dev ens1 noprefixroute",
			"route add 10.7.0.0/24 dev ens1 src 10.7.0.1 metric 101"},
		"addresses of one net": {"addr add 10.7.0.1/24 dev ens1", "addr add 10.7.0.2/24 dev ens1",
			"addr add 10.8.0.1/24 dev ens1 scope link"},
		"down": {"link set ens1 down"},
		"neighbours": {"neigh add 10.1.0.7 lladdr 02:00:00:00:00:07 dev ens1",
			"neigh add fd00::7 lladdr 02:00:00:00:00:07 dev ens1 nud permanent"},
		"of rules": {"rule add oif ens1 lookup 101", "rule add from 10.1.0.1 lookup 101"},
	} {
		t.Run(name, func(t *testing.T) {
			host, h := newHost(t)
			pod := podnettest.New(t)
			for _, c := range commands {
				host.IP(c)
			}
			before := picture(t, host, "ens1") + host.IP("rule")
			w := want(podnet.Move, nil)
			o, _ := attach(t, h, pod, w)
			test.NoError(t, h.Detach(pod.Path(), o, w))
			test.Eq(t, before, picture(t, host, "ens1")+host.IP("rule"), test.Sprint("the host's interface"))
		})
	}
}

// TestSysctls: what hosts with several HCAs in one network set for their interfaces is there again,
// and a pod's interface has the settings that several interfaces in one network need.
func TestSysctls(t *testing.T) {
	host, h := newHost(t)
	pod := podnettest.New(t)
	changed := map[string]string{"ipv4/arp_ignore": "2", "ipv4/arp_announce": "1", "ipv4/rp_filter": "1",
		"ipv4/forwarding": "1", "ipv4/accept_local": "1",
		"ipv6/accept_ra": "2", "ipv6/forwarding": "1", "ipv6/autoconf": "0", "ipv6/mtu": "1290", "ipv6/dad_transmits": "3",
		"ipv6/stable_secret": "2001:0db8:0000:0000:0000:0000:0000:0007", "ipv6/addr_gen_mode": "2"}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(changed))) { // the secret before its use
		sysctl(t, host, "ens1", name, changed[name])
	}
	w := want(podnet.Move, nil)
	o, _ := attach(t, h, pod, w)
	for name, value := range changed {
		if name == "ipv6/stable_secret" || name == "ipv6/mtu" { // the pod's has no secret, and the MTU of the claim
			continue
		}
		test.NotEq(t, value, sysctl(t, pod, w.Name, name, ""),
			test.Sprintf("the pod's interface has the host's %s", name))
	}
	for name, value := range map[string]string{"ipv4/arp_ignore": "1", "ipv4/arp_announce": "2", "ipv4/rp_filter": "2",
		"ipv6/accept_ra": "0"} {
		test.Eq(t, value, sysctl(t, pod, w.Name, name, ""), test.Sprintf("the pod's interface has %s", name))
	}
	test.NoError(t, h.Detach(pod.Path(), o, w))
	for name, value := range changed {
		test.Eq(t, value, sysctl(t, host, "ens1", name, ""), test.Sprintf("%s", name))
	}
}

// sysctl reads a setting of an interface, such as ipv4/forwarding, and sets it to a value unless that is empty.
func sysctl(t *testing.T, n *podnettest.Namespace, link, name, value string) string {
	t.Helper()
	family, name, _ := strings.Cut(name, "/")
	path := "/proc/sys/net/" + family + "/conf/" + link + "/" + name
	err := n.Do(func() (err error) {
		if value != "" {
			return os.WriteFile(path, []byte(value), 0o644)
		}
		data, err := os.ReadFile(path)
		value = strings.TrimSpace(string(data))
		return err
	})
	must.NoError(t, err)
	return value
}

// TestNameTaken: an interface whose name another one has by now gets all else back, stays up
// whoever tries again, and gets its name when that is free.
func TestNameTaken(t *testing.T) {
	host, h := newHost(t)
	pod := podnettest.New(t)
	before := picture(t, host, "ens1")
	w := want(podnet.Move, nil)
	o, _ := attach(t, h, pod, w)
	host.IP("link add ens1 type veth peer name another")
	transit := fmt.Sprint("_rdma", o.Index)
	said := ""
	for range 2 {
		if err := h.Detach(pod.Path(), o, w); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "name it ens1") {
			t.Fatalf("error %v", err)
		}
		out := picture(t, host, transit)
		if said != "" && out != said || !strings.Contains(out, "up true") || !strings.Contains(out, "10.1.0.1/24") {
			t.Errorf("it is\n%s", out)
		}
		said = out
	}
	host.IP("link del ens1")
	test.NoError(t, h.Restore(o))
	test.Eq(t, before, picture(t, host, "ens1"), test.Sprint("the host's interface"))
}

// TestImmovable: an interface that the kernel keeps where it is, is as it was.
func TestImmovable(t *testing.T) {
	host, h := newHost(t)
	pod := podnettest.New(t)
	before := picture(t, host, "ens1")
	w := want(podnet.Move, nil)
	o, err := h.Inspect("ens1", "", w.Mode)
	must.NoError(t, err)
	pod.IP(fmt.Sprintf("link add _rdma%d type veth peer name other", o.Index)) // somebody takes the transit name
	if _, err := h.Attach(pod.Path(), o, w); !errors.Is(err, unix.EEXIST) || !strings.Contains(err.Error(), "move it") {
		t.Errorf("error %v", err)
	}
	test.NoError(t, h.Detach(pod.Path(), o, w))
	test.Eq(t, before, picture(t, host, "ens1"), test.Sprint("the host's interface"))
}
