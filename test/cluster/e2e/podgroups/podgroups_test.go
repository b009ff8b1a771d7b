// Package podgroups proves claims that are reserved for a PodGroup (KEP-5729), on a cluster with the feature gates for
// them. Its host is in shared network namespace mode; the virtual machine has the same in exclusive mode and with
// network interfaces (test/vm/inside/follow). The cluster also has another directory of the kubelet, and pods of other
// users.
package podgroups

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// shared is the HCA that the policy publishes for shares.
const shared = "pci-0000-29-00-0"

const values = `
config:
  rules:
  - name: shares
    publish: shared
    selectors:
    - cel:
        expression: device.attributes["resource.kubernetes.io"].pciBusID == "0000:29:00.0"
`

var bed *testbed.Bed

func TestMain(m *testing.M) {
	testbed.Main(m, testbed.Options{
		Machine: "dgx-h100-ib",
		Cluster: cluster.WithPodGroupClaims(cluster.Options{KubeletDir: kubeletDir}),
		Values:  values,
	}, &bed)
}

// workers are the pods of the example.
var workers = []string{"group-worker-0", "group-worker-1"}

// namespace is a namespace whose PodGroups are deleted before its claims: a PodGroup keeps its claim reserved.
func namespace(t *testing.T) *testbed.Namespace {
	t.Helper()
	n := bed.Namespace(t)
	t.Cleanup(func() { n.Kubectl("delete", "podgroups", "--all", "--wait=false") })
	return n
}

// groupClaim is the only claim of the namespace, which must be reserved for the PodGroup alone.
func groupClaim(t *testing.T, n *testbed.Namespace) testbed.Claim {
	t.Helper()
	claims := n.Claims()
	if len(claims) != 1 || len(claims[0].Results()) != 1 {
		t.Fatalf("claims %+v, want one with one device", claims)
	}
	if of := claims[0].Status.ReservedFor; len(of) != 1 || of[0].Resource != "podgroups" || of[0].Name != "workers" {
		t.Fatalf("the claim is reserved for %+v", of)
	}
	return claims[0]
}

// TestPodGroup: the pods of a group have the HCA of its claim, and keep it over restarts of driver and kubelet; a pod
// that joins later has it too. When the group has ended, nothing is left.
func TestPodGroup(t *testing.T) {
	n := namespace(t)
	n.Example("pod-group")
	n.Ready(workers...)
	c := groupClaim(t, n)
	device := c.Results()[0].Device
	for _, pod := range workers {
		n.Expect(pod, "app", device)
	}
	told(t, n)

	bed.StopDriver(t)
	n.RestartContainer(workers[0])
	bed.StartDriver(t)
	must.NoError(t, bed.Restart(t.Context(), cluster.Kubelet))
	n.RestartContainer(workers[1])
	n.Apply(strings.Replace(testbed.Pod("later", "resourceClaimTemplateName: group-hca"),
		"spec:", "spec:\n  schedulingGroup: {podGroupName: workers}", 1))
	n.Ready("later")
	all := append([]string{"later"}, workers...)
	for _, pod := range all {
		n.Expect(pod, "app", device)
	}

	n.Kubectl("delete", "podgroup", "workers", "--wait=false")
	for _, pod := range all { // a group that is deleted has its HCA until its pods have ended
		n.Expect(pod, "app", device)
	}
	n.Delete(all...)
	bed.Gone(t, c.Spec())
	bed.Gone(t, bed.Record(c))
}

// told waits until the status of the group's claim names the HCA as the node does.
func told(t *testing.T, n *testbed.Namespace) {
	t.Helper()
	testbed.Eventually(t, "status of the claim", func() error {
		c := groupClaim(t, n)
		want := bed.HostHCA(t, c.Results()[0].Device).IBDev
		if d := c.Status.Devices; len(d) != 1 || len(d[0].Data.HCAs) != 1 || d[0].Data.HCAs[0].IBDev != want {
			return fmt.Errorf("status.devices: %+v, want %s", d, want)
		}
		return nil
	})
}

// TestShares: a claim of a group is one share of an HCA, however many pods use it. A pod beside it has another.
func TestShares(t *testing.T) {
	n := namespace(t)
	example := testbed.ReadFile(t, bed.Checkout.Example("pod-group"))
	n.Apply(strings.ReplaceAll(example, "hca.rdma.dev", "shared.hca.rdma.dev"))
	n.Ready(workers...)
	c := groupClaim(t, n)
	if r := c.Results()[0]; r.Device != "shared-"+shared || !testbed.SameQuantity(t, r.ConsumedCapacity["shares"], "1") {
		t.Errorf("the group has %+v", r)
	}
	for _, pod := range workers {
		n.Expect(pod, "app", "shared-"+shared)
	}
	n.Apply(testbed.Template("share", "shared.hca.rdma.dev", "") +
		testbed.Pod("alone", "resourceClaimTemplateName: share"))
	n.Ready("alone")
	n.Expect("alone", "app", "shared-"+shared)
}
