package follow

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// end is a pod at one end of a link.
type end struct{ pod, ibdev, link, address string }

// attach gives a pod the network interface of its device, with an address, as a CNI plugin
// such as host-device does.
func (e end) attach(t *testing.T) {
	t.Helper()
	pid := strconv.Itoa(sandbox(t, e.ibdev))
	inside.Must(t, "ip", "link", "set", e.link, "netns", pid)
	inside.Must(t, "nsenter", "--target", pid, "--net", "ip", "addr", "add", e.address+"/24", "dev", e.link)
	inside.Must(t, "nsenter", "--target", pid, "--net", "ip", "link", "set", e.link, "up")
}

// detach brings the interface back to the host. The kernel would not: it ends a veth with its
// namespace.
func (e end) detach(t *testing.T) {
	t.Helper()
	inside.Must(t, "nsenter", "--target", strconv.Itoa(sandbox(t, e.ibdev)), "--net", "ip", "link", "set", e.link, "netns", "1")
}

// Two pods, each with its device and the device's interface, talk by rdma_cm on their own
// addresses.
func TestTraffic(t *testing.T) {
	before := counted(t)
	server, client := end{"server", "rxm1", "veth0", "10.79.0.1"}, end{"client", "rxm2", "veth0p", "10.79.0.2"}
	for _, e := range []end{server, client} {
		create(t, e.pod, e.ibdev, one)
	}
	for _, e := range []end{server, client} {
		ready(t, e.pod)
		e.attach(t)
	}
	listening := make(chan string, 1)
	go func() {
		out, err := exec(t.Context(), server.pod, "one", "timeout 100 rping -s -a "+server.address+" -C 3 -v 2>&1")
		listening <- fmt.Sprint(out, err)
	}()
	inside.Eventually(t, "rping "+server.address, 2*time.Minute, func() error {
		out, err := exec(t.Context(), client.pod, "one", "timeout 30 rping -c -a "+server.address+" -I "+client.address+" -C 3 -v 2>&1")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		inside.Wants(t, "the client", out, "ping data: rdma-ping-0", "ping data: rdma-ping-2")
		return nil
	})
	inside.Wants(t, "the server", <-listening, "server ping data: rdma-ping-0")
	for _, e := range []end{server, client} {
		sent, err := exec(t.Context(), e.pod, "one", "cat /sys/class/infiniband/"+e.ibdev+"/ports/1/hw_counters/sent_pkts")
		if err != nil || sent == "0\n" {
			t.Errorf("%s has sent %q packets, %v", e.ibdev, sent, err)
		}
		e.detach(t)
		ends(t, e.pod)
	}
	home(t, before)
}
