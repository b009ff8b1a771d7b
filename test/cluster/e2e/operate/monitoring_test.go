package operate

import (
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestMonitoring: a monitor opens all exclusive HCAs with their management nodes,
// beside the pods that have them, if its namespace has the label of Kubernetes.
func TestMonitoring(t *testing.T) {
	n := bed.Namespace(t)
	if out, err := bed.KubectlInput(t, adminClaim, "--namespace", n.Name, "create", "--dry-run=server", "-f", "-"); err == nil || !strings.Contains(out, testbed.AdminLabel) {
		t.Errorf("without the label: %v: %s", err, out)
	}
	bed.Kubectl(t, "label", "namespace", n.Name, testbed.AdminLabel+"=true")
	n.Apply(testbed.Template("one", "hca.rdma.dev", "") + testbed.Pod("before", "resourceClaimTemplateName: one"))
	n.Ready("before")
	n.Example("monitoring")
	n.Kubectl("rollout", "status", "daemonset/hca-monitor", "--timeout="+testbed.Patience.String())
	n.Apply(testbed.Pod("after", "resourceClaimTemplateName: one"))
	n.Ready("after")
	monitor := strings.TrimSpace(n.Kubectl("get", "pods", "-l", "app=hca-monitor", "-o", "jsonpath={.items[0].metadata.name}"))
	results := n.ClaimOf(monitor).Results()
	test.Eq(t, 8, len(results), test.Sprint("the monitor"))
	nodes := strings.Fields(n.Look(monitor, "monitor").Nodes)
	for _, r := range results {
		test.True(t, r.AdminAccess, test.Sprintf("%s was not given for administration", r.Device))
		h := bed.HostHCA(t, r.Device)
		for _, want := range []string{h.Uverbs, strings.Replace(h.Uverbs, "uverbs", "umad", 1)} {
			test.True(t, testbed.ContainsAll(" "+strings.Join(nodes, " ")+" ", []string{" " + want + " "}),
				test.Sprintf("the monitor has no %s among %q", want, nodes))
		}
	}
	for _, pod := range []string{"before", "after"} {
		n.Expect(pod, "app", n.ClaimOf(pod).Results()[0].Device)
	}
}

// adminClaim asks for an HCA to monitor.
const adminClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: monitor}
spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: hca.rdma.dev, adminAccess: true}}]}}
`
