package netns

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/podnet"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// TestTrafficShared: in shared mode two namespaces have a macvlan each on the interface of one
// device, as claims with network macvlan get them, reach each other by rdma_cm, and the GIDs of their
// addresses are those of their own interfaces.
func TestTrafficShared(t *testing.T) {
	inside.NetnsMode(t, "shared")
	inside.Must(t, "ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
	inside.Must(t, "ip", "link", "set", "right", "up")
	inside.Must(t, "ip", "link", "set", "left", "up")
	inside.Must(t, "rdma", "link", "add", "rxm7", "type", "rxe", "netdev", "left")
	host, err := podnet.NewHost("rdma.dev", nil)
	must.NoError(t, err)
	for i, ns := range []string{"one", "two"} {
		o, err := host.Inspect("left", "", podnet.Macvlan)
		must.NoError(t, err)
		address := netip.MustParsePrefix(fmt.Sprintf("10.78.0.%d/24", i+1))
		if _, err := host.Attach(namespace(t, ns), o, podnet.Want{Mode: podnet.Macvlan, Name: "rdma0", Alias: ns, Addresses: []netip.Prefix{address}}); err != nil {
			t.Fatal(err)
		}
		inside.Must(t, "ip", "-n", ns, "link", "set", "lo", "up")
	}
	rping(t, "two", "one", "10.78.0.2")
	const port = "/sys/class/infiniband/rxm7/ports/1/"
	sent, err := os.ReadFile(port + "hw_counters/sent_pkts")
	if err != nil || strings.TrimSpace(string(sent)) == "0" {
		t.Errorf("the device has sent %s packets, %v", sent, err)
	}
	for i := range 2 {
		hasGID(t, port, i+1)
	}
	inside.Must(t, "rdma", "link", "del", "rxm7")
	inside.Must(t, "ip", "link", "del", "left")
}
