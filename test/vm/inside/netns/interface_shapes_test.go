package netns

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// TestShapes: what a claim can put on the interface of an HCA carries rdma_cm traffic of two namespaces, on two HCAs
// at the ends of a cable. The kernel has one RoCE v2 GID for each address, of the interface in the namespace. The bond
// has one interface: soft-RoCE below it shows that GIDs and packets find the HCA, and is no RoCE LAG.
func TestShapes(t *testing.T) {
	mode(t, "shared")
	t.Run("a macvlan on a VLAN of a bond", func(t *testing.T) { shape(t, "macvlan", true, 100) })
	t.Run("an ipvlan", func(t *testing.T) { shape(t, "ipvlan", false, 0) })
	t.Run("an ipvlan on a bond", func(t *testing.T) { shape(t, "ipvlan", true, 0) })
	t.Run("an ipvlan on a VLAN", func(t *testing.T) { shape(t, "ipvlan", false, 100) })
}

func shape(t *testing.T, kind string, bond bool, vlan int) {
	inside.Must(t, "ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
	t.Cleanup(func() { inside.Must(t, "ip", "link", "del", "left") })
	for i, netdev := range []string{"left", "right"} {
		parent, ibdev, ns := netdev, "rxm"+strconv.Itoa(7+i), "ns"+strconv.Itoa(1+i)
		if bond {
			parent = "bond" + netdev
			inside.Must(t, "ip", "link", "add", parent, "type", "bond", "mode", "active-backup", "miimon", "100")
			t.Cleanup(func() { inside.Must(t, "ip", "link", "del", "bond"+netdev) })
			inside.Must(t, "ip", "link", "set", netdev, "master", parent)
		}
		inside.Must(t, "ip", "link", "set", netdev, "up")
		inside.Must(t, "ip", "link", "set", parent, "up")
		inside.Must(t, "rdma", "link", "add", ibdev, "type", "rxe", "netdev", netdev)
		t.Cleanup(func() { inside.Must(t, "rdma", "link", "del", ibdev) })
		if vlan != 0 {
			name := parent + ".v"
			inside.Must(t, "ip", "link", "add", "link", parent, "name", name, "type", "vlan", "id", strconv.Itoa(vlan))
			inside.Must(t, "ip", "link", "set", name, "up")
			parent = name
		}
		namespace(t, ns)
		mode := map[string]string{"macvlan": "bridge", "ipvlan": "l2"}[kind]
		inside.Must(t, "ip", "link", "add", "link", parent, "name", "tmp0", "type", kind, "mode", mode)
		inside.Must(t, "ip", "link", "set", "tmp0", "netns", ns, "name", "rdma0")
		inside.Must(t, "ip", "-n", ns, "link", "set", "lo", "up")
		inside.Must(t, "ip", "-n", ns, "addr", "add", fmt.Sprintf("10.78.0.%d/24", 1+i), "dev", "rdma0")
		inside.Must(t, "ip", "-n", ns, "link", "set", "rdma0", "up")
	}
	rping(t, "ns2", "ns1", "10.78.0.2")
	for i := range 2 {
		port := fmt.Sprintf("/sys/class/infiniband/rxm%d/ports/1/", 7+i)
		sent, err := os.ReadFile(port + "hw_counters/sent_pkts")
		if err != nil || strings.TrimSpace(string(sent)) == "0" {
			t.Errorf("rxm%d has sent %s packets, %v", 7+i, sent, err)
		}
		gid := fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a4e:000%d", 1+i)
		if found := entries(port, gid); found != 1 {
			t.Errorf("rxm%d has %d GIDs %s of an interface rdma0", 7+i, found, gid)
		}
	}
}

// entries counts the RoCE v2 GIDs of a value that belong to an interface rdma0.
func entries(port, gid string) (n int) {
	for i := range 16 {
		value, _ := os.ReadFile(fmt.Sprintf("%sgids/%d", port, i))
		kind, _ := os.ReadFile(fmt.Sprintf("%sgid_attrs/types/%d", port, i))
		netdev, _ := os.ReadFile(fmt.Sprintf("%sgid_attrs/ndevs/%d", port, i))
		if strings.TrimSpace(string(value)) == gid && strings.TrimSpace(string(kind)) == "RoCE v2" &&
			strings.TrimSpace(string(netdev)) == "rdma0" {
			n++
		}
	}
	return n
}
