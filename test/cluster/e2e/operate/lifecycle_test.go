package operate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestSpecsAreRestored: a driver whose CDI directory is emptied puts back the specs
// of prepared claims by itself, so that containers can start again.
func TestSpecsAreRestored(t *testing.T) {
	n := bed.Namespace(t)
	c := n.Running("app")
	before := bed.Inside(t, "cat", c.Spec())
	bed.Inside(t, "sh", "-c", "rm -f /var/run/cdi/*")
	testbed.Eventually(t, "restored spec", func() error {
		after, err := bed.Output("cat", c.Spec())
		if err == nil && after != before {
			err = fmt.Errorf("the spec differs: %s", after)
		}
		return err
	})
	n.RestartContainer("app")
	n.Expect("app", "app", c.Results()[0].Device)
}

// TestDriverAway: while the driver is down the CDI directory is emptied, a pod is
// deleted, and another one is torn out with its claim. The driver that comes back restores
// the spec of the pod that lives, whose container restarts; nothing stays of the others.
func TestDriverAway(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(testbed.Template("one", "hca.rdma.dev", "") + testbed.PodFor("app", "one") + testbed.PodFor("deleted", "one") + testbed.PodFor("forced", "one"))
	n.Ready("app", "deleted", "forced")
	c, deleted, forced := n.ClaimOf("app"), n.ClaimOf("deleted"), n.ClaimOf("forced")

	bed.StopDriver(t)
	bed.Inside(t, "sh", "-c", "rm -f /var/run/cdi/*")
	n.Kubectl("delete", "pod", "deleted", "--wait=false")
	n.Kubectl("delete", "resourceclaim", forced.Metadata.Name, "--wait=false")
	n.Kubectl("patch", "resourceclaim", forced.Metadata.Name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	n.Kubectl("delete", "pod", "forced", "--force", "--grace-period=0")
	bed.StartDriver(t)

	bed.Inside(t, "test", "-e", c.Spec())
	n.RestartContainer("app")
	n.Expect("app", "app", c.Results()[0].Device)
	n.Kubectl("wait", "--for=delete", "pod/deleted", "--timeout="+testbed.Patience.String())
	for _, ended := range []testbed.Claim{deleted, forced} {
		bed.Gone(t, ended.Spec())
		bed.Gone(t, bed.Record(ended))
	}
	for _, file := range []string{c.Spec(), bed.Record(c)} {
		bed.Inside(t, "test", "-e", file)
	}
	n.Delete("app")
	bed.Gone(t, c.Spec())
	bed.Gone(t, bed.Record(c))
}

// oneDriver waits until there are the sockets of one driver.
func oneDriver(t *testing.T) {
	t.Helper()
	testbed.Eventually(t, "sockets of one driver", func() error {
		out, err := bed.Output("sh", "-c", "ls /var/lib/kubelet/plugins/rdma.dev/*.sock /var/lib/kubelet/plugins_registry/rdma.dev*.sock")
		if got := len(strings.Fields(out)); err == nil && got != 3 { // of the registration, the kubelet and the status
			err = fmt.Errorf("%d sockets: %s", got, out)
		}
		return err
	})
}
