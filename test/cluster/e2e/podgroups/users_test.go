package podgroups

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// kubeletDir is k0s's, as an example of a kubelet that does not use the default.
const kubeletDir = "/var/lib/k0s/kubelet"

// restricted makes a pod what Pod Security asks for at its strictest level.
var restricted = strings.NewReplacer(
	"securityContext: {runAsUser: 1000}", `securityContext:
      runAsUser: 1000
      runAsNonRoot: true
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL]}
      seccompProfile: {type: RuntimeDefault}`)

// TestRestrictedPods: a pod under Pod Security "restricted" has its HCA, also in a user
// namespace of its own, and after a restart of its container. The driver's own pod would not
// be admitted there.
func TestRestrictedPods(t *testing.T) {
	n := bed.Namespace(t)
	bed.Kubectl(t, "label", "namespace", n.Name, "pod-security.kubernetes.io/enforce=restricted")
	n.Apply(testbed.Template("one", "hca.rdma.dev", ""))
	pod := testbed.Pod("app", "resourceClaimTemplateName: one")
	testbed.Eventually(t, "Pod Security in the namespace", func() error { // the API server sees its label by a watch
		out, err := n.KubectlInput(t, pod, "--namespace", n.Name, "create", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(out, "violates PodSecurity") {
			return fmt.Errorf("the namespace admits an ordinary pod: %v: %s", err, out)
		}
		return nil
	})
	n.Apply(restricted.Replace(pod))
	n.Apply(strings.Replace(restricted.Replace(testbed.Pod("userns", "resourceClaimTemplateName: one")), "spec:", "spec:\n  hostUsers: false", 1))
	n.Ready("app", "userns")
	n.Expect("app", "app", n.ClaimOf("app").Results()[0].Device)

	c := n.ClaimOf("userns")
	if ids := n.Sh("userns", "app", "cat /proc/self/uid_map"); strings.HasPrefix(strings.Join(strings.Fields(ids), " "), "0 0 ") {
		t.Errorf("the pod has the users of the host: %s", ids)
	}
	n.ExpectOtherUsers("userns", "app", c.Results()[0].Device)
	n.RestartContainer("userns")
	n.ExpectOtherUsers("userns", "app", c.Results()[0].Device)
	n.Delete("userns")
	bed.Gone(t, c.Spec())
	bed.Gone(t, bed.Record(c))
}

// TestKubeletDirectory: with another root directory of the kubelet the driver has
// there what it has from the kubelet, and nothing in the default one.
func TestKubeletDirectory(t *testing.T) {
	n := bed.Namespace(t)
	c := n.Running("app")
	n.Expect("app", "app", c.Results()[0].Device)
	bed.Inside(t, "test", "-e", kubeletDir+"/plugins/rdma.dev/state.json") // which says where the records are
	if left, err := bed.Output("find", "/var/lib/kubelet", "-name", "plugins*"); err == nil && left != "" {
		t.Errorf("in the default directory there is %s", left)
	}
}
