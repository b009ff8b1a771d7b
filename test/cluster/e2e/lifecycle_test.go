package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

const daemonSet = "daemonset/" + deploy.Release

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

// TestContainersRestartAfterDriver: the CDI directory is emptied while the driver is
// down. The new driver restores the specs, and the pod's container restarts.
func TestContainersRestartAfterDriver(t *testing.T) {
	n := bed.Namespace(t)
	c := n.Running("app")
	stopDriver(t)
	bed.Inside(t, "sh", "-c", "rm -f /var/run/cdi/*")
	startDriver(t)
	bed.Inside(t, "test", "-e", c.Spec())
	n.RestartContainer("app")
	n.Expect("app", "app", c.Results()[0].Device)
	n.Kubectl("delete", "pod", "app", "--wait")
	bed.Gone(t, c.Spec())
}

// TestUnprepareWaitsForDriver: a pod deleted while the driver is down ends when the
// driver is back, and leaves nothing.
func TestUnprepareWaitsForDriver(t *testing.T) {
	n := bed.Namespace(t)
	c := n.Running("app")
	stopDriver(t)
	n.Kubectl("delete", "pod", "app", "--wait=false")
	startDriver(t)
	n.Kubectl("wait", "--for=delete", "pod/app", "--timeout="+testbed.Patience.String())
	bed.Gone(t, c.Spec())
}

// TestDriverKilled: SIGKILL of the driver's process disturbs no running pod; the
// restarted driver prepares the next one.
func TestDriverKilled(t *testing.T) {
	n := bed.Namespace(t)
	c := n.Running("app")
	bed.Inside(t, "pkill", "-KILL", "-x", "dra-driver")
	n.Apply(testbed.Pod("next", "resourceClaimTemplateName: one"))
	n.Ready("next")
	n.Expect("app", "app", c.Results()[0].Device)
}

// TestRollingUpdate: a new driver pod takes over beside the old one; the claim
// prepared by the old one is unprepared by the new one.
func TestRollingUpdate(t *testing.T) {
	n := bed.Namespace(t)
	c := n.Running("app")
	bed.Kubectl(t, "--namespace", deploy.Namespace, "rollout", "restart", daemonSet)
	bed.Kubectl(t, "--namespace", deploy.Namespace, "rollout", "status", daemonSet, "--timeout="+testbed.Patience.String())
	n.Expect("app", "app", c.Results()[0].Device)
	n.Kubectl("delete", "pod", "app", "--wait")
	bed.Gone(t, c.Spec())
	testbed.Eventually(t, "sockets of one driver", func() error {
		out, err := bed.Output("sh", "-c", "ls /var/lib/kubelet/plugins/rdma.dev/*.sock | wc -l")
		if err == nil && strings.TrimSpace(out) != "1" {
			err = fmt.Errorf("%s sockets", strings.TrimSpace(out))
		}
		return err
	})
}

// TestKubeletRestart: a restarted kubelet wipes the node's slices and knows no
// prepared claim any more. The slices come back, the running pod keeps its device,
// a second pod on its claim gets the same one with the same spec.
func TestKubeletRestart(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("shared-claim")
	n.Ready("shared-first", "shared-second")
	c := n.Claims()[0]
	device := c.Results()[0].Device
	before := bed.Inside(t, "cat", c.Spec())
	if err := bed.Restart(t.Context(), cluster.Kubelet); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, "kubelet's server", func() error {
		_, err := bed.Output("kubectl", "--namespace", n.Name, "exec", "shared-first", "-c", "one", "--", "true")
		return err
	})
	n.Expect("shared-first", "one", device)
	n.Kubectl("delete", "pod", "shared-second", "--wait")
	n.Example("shared-claim")
	n.Ready("shared-second")
	n.Expect("shared-second", "three", device)
	if after := bed.Inside(t, "cat", c.Spec()); after != before {
		t.Errorf("the spec changed from %s to %s", before, after)
	}
	// Not before the slices are back can a new claim be allocated.
	n.Apply(testbed.Template("one", "hca.rdma.dev", "") + testbed.Pod("new", "resourceClaimTemplateName: one"))
	n.Kubectl("wait", "--for=condition=Ready", "pod/new", "--timeout=120s")
}

// stopDriver removes the driver's pod from the node by a node selector that fits
// nothing.
func stopDriver(t *testing.T) {
	t.Helper()
	patchSelector(t, `{"rdma.dev/no-such-node":"true"}`)
	testbed.Eventually(t, "end of the driver", func() error {
		out, err := bed.Output("kubectl", "--namespace", deploy.Namespace, "get", "pods", "-o", "name")
		if err == nil && out != "" {
			err = fmt.Errorf("there is %s", out)
		}
		return err
	})
}

func startDriver(t *testing.T) {
	t.Helper()
	patchSelector(t, `{"rdma.dev/no-such-node":null}`)
	bed.Kubectl(t, "--namespace", deploy.Namespace, "rollout", "status", daemonSet, "--timeout="+testbed.Patience.String())
}

func patchSelector(t *testing.T, selector string) {
	t.Helper()
	bed.Kubectl(t, "--namespace", deploy.Namespace, "patch", daemonSet, "--type=merge",
		"-p", `{"spec":{"template":{"spec":{"nodeSelector":`+selector+`}}}}`)
}
