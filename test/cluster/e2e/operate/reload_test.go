package operate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestPolicyReload: another policy changes what is published, in the same process. A
// view that claims hold stays until they end, and a policy that is wrong changes nothing.
func TestPolicyReload(t *testing.T) {
	process := driverProcess(t)
	n := bed.Namespace(t)
	n.Apply(testbed.Template("share", "shared.hca.rdma.dev", "") + testbed.PodFor("holder", "share"))
	n.Ready("holder")
	exclusive := strings.Replace(testbed.HGXValues, "publish: shared\n    handles: 6300\n    objects: 630k", "publish: exclusive\n    attributes: {tier: {string: gold}}", 1)
	bed.Configure(t, exclusive)
	testbed.Eventually(t, "attribute of the new policy", func() error {
		if got := bed.Devices(t)[testbed.SharedStorage].Attributes["tier"]["string"]; got != "gold" {
			return fmt.Errorf("tier is %v", got)
		}
		return nil
	})
	bed.Published(t, []string{testbed.SharedStorage}, []string{testbed.Storage})
	n.Apply(testbed.PodFor("late", "share"))
	n.Pending("late")
	n.Expect("holder", "app", testbed.SharedStorage)
	n.Delete("late", "holder")
	bed.Published(t, []string{testbed.Storage}, []string{testbed.SharedStorage})
	test.Eq(t, process, driverProcess(t), test.Sprint("the driver's process"))
}

// driverProcess names the driver's container.
func driverProcess(t *testing.T) string {
	t.Helper()
	return bed.Kubectl(t, "--namespace", deploy.Namespace, "get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[*].containerID}")
}
