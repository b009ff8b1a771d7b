package promises

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestDriverKilled: after SIGKILL of the driver's process the container of a running pod
// restarts, with or without a driver; the restarted driver prepares the next pod.
func TestDriverKilled(t *testing.T) {
	n := bed.Namespace(t)
	c := n.Running("app")
	before := bed.DriverProcess(t)
	bed.Inside(t, "kill", "-KILL", before)
	n.RestartContainer("app")
	n.Expect("app", "app", c.Results()[0].Device)
	testbed.Eventually(t, "another process of the driver", func() error {
		if now := bed.DriverProcess(t); now == before {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	bed.Kubectl(t, "--namespace", deploy.Namespace, "wait", "--for=condition=Ready", "pod", "--all", "--timeout="+testbed.Patience.String())
	n.Apply(testbed.PodFor("next", "one"))
	n.Ready("next")
	n.Expect("next", "app", n.ClaimOf("next").Results()[0].Device)
}

// TestKubeletRestart: a restarted kubelet wipes the node's slices and knows no
// prepared claim any more. The slices come back, the running pod keeps its device, also
// when its container starts again, and a second pod on its claim gets the same one with the
// same spec.
func TestKubeletRestart(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("shared-claim")
	n.Ready("shared-first", "shared-second")
	alone := n.Running("alone")
	c := n.ClaimOf("shared-first")
	device := c.Results()[0].Device
	before := bed.Inside(t, "cat", c.Spec())
	bed.RestartKubelet(t)
	n.RestartContainer("alone")
	n.Expect("alone", "app", alone.Results()[0].Device)
	n.Expect("shared-first", "one", device)
	n.Delete("shared-second")
	n.Example("shared-claim")
	n.Ready("shared-second")
	n.Expect("shared-second", "three", device)
	test.Eq(t, before, bed.Inside(t, "cat", c.Spec()), test.Sprint("the spec changed from"))
	n.Apply(testbed.PodFor("new", "one"))
	n.Ready("new")
}
