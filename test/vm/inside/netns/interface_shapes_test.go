package netns

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// TestShapes: what the driver puts on the interface of an HCA carries rdma_cm traffic of two namespaces, on two HCAs
// at the ends of a cable. The kernel has one RoCE v2 GID for each address, of the interface in the namespace. The bond
// has one interface: soft-RoCE below it shows that GIDs and packets find the HCA, and is no RoCE LAG.
func TestShapes(t *testing.T) {
	inside.NetnsMode(t, "shared")
	t.Run("a macvlan on a VLAN of a bond", func(t *testing.T) { shape(t, "macvlan", true, 100) })
	t.Run("an ipvlan", func(t *testing.T) { shape(t, "ipvlan", false, 0) })
	if needs.IsLong() { // more combinations
		t.Run("an ipvlan on a bond", func(t *testing.T) { shape(t, "ipvlan", true, 0) })
		t.Run("an ipvlan on a VLAN", func(t *testing.T) { shape(t, "ipvlan", false, 100) })
	}
}

func shape(t *testing.T, kind string, bond bool, vlan int) {
	inside.Must(t, "ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
	t.Cleanup(func() { inside.Must(t, "ip", "link", "del", "left") })
	host, err := podnet.NewHost("rdma.dev", nil)
	must.NoError(t, err)
	for i, netdev := range []string{"left", "right"} {
		ibdev, ns := "rxm"+strconv.Itoa(7+i), "ns"+strconv.Itoa(1+i)
		if bond {
			name := "bond" + netdev
			inside.Must(t, "ip", "link", "add", name, "type", "bond", "mode", "active-backup", "miimon", "100")
			t.Cleanup(func() { inside.Must(t, "ip", "link", "del", name) })
			inside.Must(t, "ip", "link", "set", netdev, "master", name)
			inside.Must(t, "ip", "link", "set", name, "up")
		}
		inside.Must(t, "ip", "link", "set", netdev, "up")
		inside.Must(t, "rdma", "link", "add", ibdev, "type", "rxe", "netdev", netdev)
		t.Cleanup(func() { inside.Must(t, "rdma", "link", "del", ibdev) })
		o, err := host.Inspect(netdev, "", kind)
		must.NoError(t, err)
		if _, err := host.Attach(namespace(t, ns), o, podnet.Want{
			Mode: kind, VLAN: vlan, Name: "rdma0", Alias: ns,
			Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.78.0.%d/24", 1+i))},
		}); err != nil {
			t.Fatal(err)
		}
		inside.Must(t, "ip", "-n", ns, "link", "set", "lo", "up")
	}
	rping(t, "ns2", "ns1", "10.78.0.2")
	for i := range 2 {
		port := fmt.Sprintf("/sys/class/infiniband/rxm%d/ports/1/", 7+i)
		sent, err := os.ReadFile(port + "hw_counters/sent_pkts")
		if err != nil || strings.TrimSpace(string(sent)) == "0" {
			t.Errorf("rxm%d has sent %s packets, %v", 7+i, sent, err)
		}
		hasGID(t, port, 1+i)
	}
}

// hasGID checks that a port has one RoCE v2 GID of the address 10.78.0.N, of the namespace's own interface.
func hasGID(t *testing.T, port string, n int) {
	t.Helper()
	want, found := fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a4e:%04x", n), 0
	for i := range 16 {
		gid, _ := os.ReadFile(fmt.Sprintf("%sgids/%d", port, i))
		kind, _ := os.ReadFile(fmt.Sprintf("%sgid_attrs/types/%d", port, i))
		netdev, _ := os.ReadFile(fmt.Sprintf("%sgid_attrs/ndevs/%d", port, i))
		if strings.TrimSpace(string(gid)) == want && strings.TrimSpace(string(kind)) == "RoCE v2" &&
			strings.TrimSpace(string(netdev)) == "rdma0" {
			found++
		}
	}
	test.Eq(t, 1, found, test.Sprintf("%s has %d GIDs %s of an interface rdma0, want 1", port, found, want))
}
