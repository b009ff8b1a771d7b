package promises

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestRelease is the life of a release as helm has it, beside a pod with an HCA: upgrade
// and rollback do not touch the pod, the uninstallation is refused while it lives, leaves
// nothing on the node when it is gone, and can be forced.
func TestRelease(t *testing.T) {
	n := bed.Namespace(t)
	n.Apply(testbed.Template("one", "hca.rdma.dev", "") + testbed.Pod("app", "resourceClaimTemplateName: one"))
	n.Ready("app")
	device := n.ClaimOf("app").Results()[0].Device
	started := n.Kubectl("get", "pod", "app", "--output", startedAt)
	untouched := func(after string) {
		t.Helper()
		n.Expect("app", "app", device)
		test.Eq(t, started, n.Kubectl("get", "pod", "app", "--output", startedAt),
			test.Sprint("the container has started anew"))
		must.False(t, t.Failed(), must.Sprintf("after %s", after))
	}
	helm := func(args ...string) (string, error) {
		return bed.Output("helm", append(args, "--namespace", deploy.Namespace)...)
	}
	bed.Configure(t, "logVerbosity: 4")
	untouched("helm upgrade")
	out, err := helm("rollback", deploy.Release, "--wait", "--timeout", "120s")
	must.NoError(t, err, must.Sprintf("helm rollback: %s", out))
	untouched("helm rollback")

	if out, err := helm("uninstall", deploy.Release, "--timeout", "120s"); err == nil || !strings.Contains(err.Error(), deploy.Release+"-uninstall failed") {
		t.Fatalf("helm uninstall while a pod has an HCA: %v: %s", err, out)
	}
	job := bed.Kubectl(t, "--namespace", deploy.Namespace, "logs", "job/"+deploy.Release+"-uninstall")
	test.True(t, testbed.ContainsAll(job, []string{n.Name, "pods/app", device, "--no-hooks"}),
		test.Sprintf("the job says:\n%s", job))
	untouched("a refused uninstallation")
	// Helm takes the release for one that goes until it is told otherwise.
	history, err := helm("history", deploy.Release, "--max", "1", "--output", "json")
	revision := regexp.MustCompile(`"revision":(\d+)`).FindStringSubmatch(history)
	if err != nil || revision == nil {
		t.Fatalf("helm history: %v: %s", err, history)
	}
	out, err = helm("rollback", deploy.Release, revision[1], "--wait", "--timeout", "120s")
	must.NoError(t, err, must.Sprintf("helm rollback after a refused uninstallation: %s", out))
	bed.Configure(t, "logVerbosity: 3")
	untouched("helm upgrade after a refused uninstallation")
	n.RestartContainer("app") // with the hook of its spec
	n.Expect("app", "app", device)

	drain(t)
	testbed.Eventually(t, "claims of earlier tests are gone, the chart is uninstalled", func() error {
		out, err := helm("uninstall", deploy.Release, "--wait", "--timeout", "120s")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	// Helm waits for the DaemonSet, and Kubernetes ends its pods after that.
	bed.Kubectl(t, "--namespace", deploy.Namespace, "wait", "--for=delete", "pods", "--selector",
		"app.kubernetes.io/instance="+deploy.Release, "--timeout="+testbed.Patience.String())
	nothingIn(t, "/opt/rdma.dev", "/run/rdma.dev", bed.PluginDir(), bed.PluginDir("../../plugins_registry"), "/var/run/cdi")
	if kinds := bed.Kubectl(t, "get", "deviceclasses,validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings", "--selector",
		"app.kubernetes.io/instance="+deploy.Release, "--output", "name"); strings.TrimSpace(kinds) != "" {
		t.Errorf("left in the cluster:\n%s", kinds)
	}
	bed.Configure(t, "{}") // installs it again
	n.Apply(testbed.Pod("again", "resourceClaimTemplateName: one"))
	n.Ready("again")
	device = n.ClaimOf("again").Results()[0].Device

	// The way to force it: the pod goes on, and ends when there is a driver again.
	out, err = helm("uninstall", deploy.Release, "--no-hooks", "--wait", "--timeout", "120s")
	must.NoError(t, err, must.Sprintf("helm uninstall --no-hooks: %s", out))
	n.Expect("again", "app", device)
	n.Kubectl("delete", "pod", "again", "--wait=false")
	bed.Configure(t, "{}")
	n.Kubectl("wait", "--for=delete", "pod/again", "--timeout="+testbed.Patience.String())
}

// startedAt is since when the first container of a pod runs.
const startedAt = "jsonpath={.status.containerStatuses[0].state.running.startedAt}"

// drain empties the node as an administrator does. What the driver had for the pods is
// gone then, though the driver itself stays, and the node takes pods again.
func drain(t *testing.T) {
	t.Helper()
	bed.Kubectl(t, "drain", cluster.NodeName, "--ignore-daemonsets", "--force", "--grace-period=1", "--timeout="+testbed.Patience.String())
	nothingIn(t, bed.StateDir("claims"), bed.StateDir("metadata"), "/run/rdma.dev/reports", "/var/run/cdi")
	bed.Kubectl(t, "uncordon", cluster.NodeName)
}

// nothingIn waits until there are no files and sockets below directories of the node, but those of the driver of GPUs.
// A directory may be missing.
func nothingIn(t *testing.T, dirs ...string) {
	t.Helper()
	testbed.Eventually(t, "end of what is on the node", func() error {
		left := bed.Inside(t, "sh", "-c", "find "+strings.Join(dirs, " ")+
			" \\( -type f -o -type s \\) ! -name 'gpu.example.com*' 2>/dev/null || true")
		if left = strings.TrimSpace(left); left != "" {
			return fmt.Errorf("left on the node:\n%s", left)
		}
		return nil
	})
}
