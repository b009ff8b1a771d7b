package promises

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestLinkDown: a link that fails keeps new claims off its HCA, and the pod that has it
// goes on; when the link is back, so are the claims. The port of a fixture raises no
// event, so this is the slow way: the driver's poll.
func TestLinkDown(t *testing.T) {
	const device = testbed.HCAOne
	n := bed.Namespace(t)
	n.Apply(testbed.RequestFor("this-one", "hca.rdma.dev", testbed.AddressOne) + testbed.PodFor("holder", "this-one"))
	n.Ready("holder")
	process := n.Kubectl("get", "pod", "holder", "-o", "jsonpath={.status.containerStatuses[*].containerID}")

	setPort(t, device, "1: DOWN", "3: Disabled")
	t.Cleanup(func() { setPort(t, device, "4: ACTIVE", "5: LinkUp") })
	tainted(t, device, 1)
	n.Expect("holder", "app", device)
	test.Eq(t, process, n.Kubectl("get", "pod", "holder", "-o", "jsonpath={.status.containerStatuses[*].containerID}"),
		test.Sprint("the container of the pod that has the HCA"))
	testbed.Eventually(t, "event on the node", func() error {
		out := bed.Kubectl(t, "--namespace", "default", "get", "events", "--field-selector", "reason=RDMAPortDown", "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(out, device) || !strings.Contains(out, "port 1 is DOWN (Disabled)") {
			return fmt.Errorf("events say %q", out)
		}
		return nil
	})
	n.Delete("holder")
	n.Apply(testbed.PodFor("late", "this-one"))
	n.Pending("late")

	setPort(t, device, "4: ACTIVE", "5: LinkUp")
	tainted(t, device, 0)
	n.Ready("late")
	n.Expect("late", "app", device)
}

// setPort gives the port of an HCA of the host another state.
func setPort(t *testing.T, device, state, physState string) {
	t.Helper()
	rdmatest.SetPort(t, bed.HostRoot, bed.HostHCA(t, device).IBDev, state, physState)
}

// tainted waits until a device is published with so many taints: the poll takes half a
// minute.
func tainted(t *testing.T, device string, want int) {
	t.Helper()
	testbed.Eventually(t, "taints of "+device, func() error {
		if taints := bed.Devices(t)[device].Taints; len(taints) != want {
			return fmt.Errorf("it has %v, want %d", taints, want)
		}
		return nil
	})
}
