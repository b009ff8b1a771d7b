package netns

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/rdmanetns"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// address gives an interface of a namespace an address and sets it up.
func address(t *testing.T, ns, link, cidr string) {
	t.Helper()
	inside.Must(t, "ip", "-n", ns, "link", "set", "lo", "up")
	inside.Must(t, "ip", "-n", ns, "addr", "add", cidr, "dev", link)
	inside.Must(t, "ip", "-n", ns, "link", "set", link, "up")
}

// rping has two namespaces talk by rdma_cm: the server listens on its own address.
func rping(t *testing.T, server, client, address string) {
	t.Helper()
	inside.Eventually(t, "ping "+address, time.Minute, func() error {
		if r := inside.Run("ip", "netns", "exec", client, "ping", "-c1", "-W2", address); r.Code != 0 {
			return fmt.Errorf("%s", r.Out)
		}
		return nil
	})
	inside.Eventually(t, "rping "+address, 2*time.Minute, func() error {
		var heard strings.Builder
		// ip becomes rping. A program between would be killed alone, and Wait would wait for the output of an rping that
		// nobody asks any more.
		listen := exec.Command("ip", "netns", "exec", server, "rping", "-s", "-a", address, "-C", "3", "-v")
		listen.Stdout, listen.Stderr = &heard, &heard
		if err := listen.Start(); err != nil {
			return err
		}
		defer listen.Wait()
		defer listen.Process.Kill()
		time.Sleep(time.Second) // one that comes too early is refused, and tries again
		if r := inside.Run("timeout", "30", "ip", "netns", "exec", client, "rping", "-c", "-a", address, "-C", "3", "-v"); r.Code != 0 {
			return fmt.Errorf("client: status %d: %s; server: %s", r.Code, r.Out, &heard)
		}
		return nil
	})
}

// sent is how many packets a device has sent, as its namespace sees it.
func sent(t *testing.T, ns, ibdev string) string {
	t.Helper()
	return strings.TrimSpace(inside.Must(t, "ip", "netns", "exec", ns, "cat", "/sys/class/infiniband/"+ibdev+"/ports/1/hw_counters/sent_pkts"))
}

// TestTrafficExclusive: two devices, each in a namespace of its own with its interface,
// reach each other by the addresses of their namespaces, and both come back.
func TestTrafficExclusive(t *testing.T) {
	needs.Long(t, "pods of TestMove have devices and interfaces of their own, and traffic")
	inside.NetnsMode(t, "exclusive")
	host, err := rdmanetns.NewHost()
	must.NoError(t, err)
	inside.Must(t, "ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
	ends := []struct{ ns, link, ibdev, address string }{
		{"one", "left", "rxm8", "10.79.0.1"}, {"two", "right", "rxm9", "10.79.0.2"},
	}
	for _, e := range ends {
		inside.Must(t, "ip", "link", "set", e.link, "up")
		inside.Must(t, "rdma", "link", "add", e.ibdev, "type", "rxe", "netdev", e.link)
	}
	for _, e := range ends {
		path := namespace(t, e.ns)
		if _, err := host.In(e.ibdev, path); err != nil {
			t.Fatal(err)
		}
		inside.Must(t, "ip", "link", "set", e.link, "netns", e.ns)
		address(t, e.ns, e.link, e.address+"/24")
	}
	rping(t, "two", "one", "10.79.0.2")
	for _, e := range ends {
		test.NotEq(t, "0", sent(t, e.ns, e.ibdev), test.Sprintf("%s has sent nothing", e.ibdev))
		if moved, err := host.Out(e.ibdev, "/run/netns/"+e.ns); err != nil || !moved {
			t.Errorf("%s back: %v, %v", e.ibdev, moved, err)
		}
		inside.Must(t, "ip", "-n", e.ns, "link", "set", e.link, "netns", "1")
	}
	got := here(t)
	for _, e := range ends {
		test.StrContains(t, strings.Join(got, " "), e.ibdev, test.Sprintf("the host has %v", got))
		inside.Must(t, "rdma", "link", "del", e.ibdev)
	}
	inside.Must(t, "ip", "link", "del", "left")
}
