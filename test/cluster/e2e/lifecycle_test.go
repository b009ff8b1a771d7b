package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
)

const daemonSet = "daemonset/" + deploy.Release

// running starts a pod with a claim and returns the claim.
func (n *namespace) running(pod string) claim {
	n.t.Helper()
	n.apply(template("one", "") + podManifest(pod))
	n.ready(pod)
	return n.claims()[0]
}

func podManifest(name string) string { return pod(name, "resourceClaimTemplateName: one") }

// TestSpecsAreRestored: a driver whose CDI directory is emptied puts back the specs
// of prepared claims by itself, so that containers can start again.
func TestSpecsAreRestored(t *testing.T) {
	n := newNamespace(t)
	c := n.running("app")
	before := inside(t, "cat", c.spec())
	inside(t, "sh", "-c", "rm -f /var/run/cdi/*")
	eventually(t, "restored spec", func() error {
		after, err := output("cat", c.spec())
		if err == nil && after != before {
			err = fmt.Errorf("the spec differs: %s", after)
		}
		return err
	})
	n.restartContainer("app")
	n.expect("app", "app", c.Status.Allocation.Devices.Results[0].Device)
}

// TestContainersRestartAfterDriver: the CDI directory is emptied while the driver is
// down. The new driver restores the specs, and the pod's container restarts.
func TestContainersRestartAfterDriver(t *testing.T) {
	n := newNamespace(t)
	c := n.running("app")
	stopDriver(t)
	inside(t, "sh", "-c", "rm -f /var/run/cdi/*")
	startDriver(t)
	inside(t, "test", "-e", c.spec())
	n.restartContainer("app")
	n.expect("app", "app", c.Status.Allocation.Devices.Results[0].Device)
	n.kubectl("delete", "pod", "app", "--wait")
	gone(t, c.spec())
}

// TestUnprepareWaitsForDriver: a pod deleted while the driver is down ends when the
// driver is back, and leaves nothing.
func TestUnprepareWaitsForDriver(t *testing.T) {
	n := newNamespace(t)
	c := n.running("app")
	stopDriver(t)
	n.kubectl("delete", "pod", "app", "--wait=false")
	startDriver(t)
	n.kubectl("wait", "--for=delete", "pod/app", "--timeout="+patience.String())
	gone(t, c.spec())
}

// TestDriverKilled: SIGKILL of the driver's process disturbs no running pod; the
// restarted driver prepares the next one.
func TestDriverKilled(t *testing.T) {
	n := newNamespace(t)
	c := n.running("app")
	inside(t, "pkill", "-KILL", "-x", "dra-driver")
	n.apply(podManifest("next"))
	n.ready("next")
	n.expect("app", "app", c.Status.Allocation.Devices.Results[0].Device)
}

// TestRollingUpdate: a new driver pod takes over beside the old one; the claim
// prepared by the old one is unprepared by the new one.
func TestRollingUpdate(t *testing.T) {
	n := newNamespace(t)
	c := n.running("app")
	kubectl(t, "--namespace", deploy.Namespace, "rollout", "restart", daemonSet)
	kubectl(t, "--namespace", deploy.Namespace, "rollout", "status", daemonSet, "--timeout="+patience.String())
	n.expect("app", "app", c.Status.Allocation.Devices.Results[0].Device)
	n.kubectl("delete", "pod", "app", "--wait")
	gone(t, c.spec())
	eventually(t, "sockets of one driver", func() error {
		out, err := output("sh", "-c", "ls /var/lib/kubelet/plugins/rdma.dev/*.sock | wc -l")
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
	n := newNamespace(t)
	n.example("shared-claim")
	n.ready("shared-first", "shared-second")
	c := n.claims()[0]
	device := c.Status.Allocation.Devices.Results[0].Device
	before := inside(t, "cat", c.spec())
	if err := kube.Restart(t.Context(), cluster.Kubelet); err != nil {
		t.Fatal(err)
	}
	eventually(t, "kubelet's server", func() error {
		_, err := output("kubectl", "--namespace", n.name, "exec", "shared-first", "-c", "one", "--", "true")
		return err
	})
	n.expect("shared-first", "one", device)
	n.kubectl("delete", "pod", "shared-second", "--wait")
	n.example("shared-claim")
	n.ready("shared-second")
	n.expect("shared-second", "three", device)
	if after := inside(t, "cat", c.spec()); after != before {
		t.Errorf("the spec changed from %s to %s", before, after)
	}
	// Not before the slices are back can a new claim be allocated.
	n.apply(template("one", "") + podManifest("new"))
	n.kubectl("wait", "--for=condition=Ready", "pod/new", "--timeout=120s")
}

// restartContainer ends the first process of a pod's container, and waits until the
// kubelet has started it again.
func (n *namespace) restartContainer(pod string) {
	n.t.Helper()
	n.kubectl("exec", pod, "--", "kill", "-TERM", "1")
	n.kubectl("wait", "pod/"+pod, "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "--timeout="+patience.String())
	n.ready(pod)
}

// stopDriver removes the driver's pod from the node by a node selector that fits
// nothing.
func stopDriver(t *testing.T) {
	t.Helper()
	patchSelector(t, `{"rdma.dev/no-such-node":"true"}`)
	eventually(t, "end of the driver", func() error {
		out, err := output("kubectl", "--namespace", deploy.Namespace, "get", "pods", "-o", "name")
		if err == nil && out != "" {
			err = fmt.Errorf("there is %s", out)
		}
		return err
	})
}

func startDriver(t *testing.T) {
	t.Helper()
	patchSelector(t, `null`)
	kubectl(t, "--namespace", deploy.Namespace, "rollout", "status", daemonSet, "--timeout="+patience.String())
}

func patchSelector(t *testing.T, selector string) {
	t.Helper()
	kubectl(t, "--namespace", deploy.Namespace, "patch", daemonSet, "--type=merge",
		"-p", `{"spec":{"template":{"spec":{"nodeSelector":`+selector+`}}}}`)
}
