// Package gates proves the driver on a cluster without the feature gates that
// Kubernetes 1.34 and 1.35 have off by default: less is offered, and it is safe.
package gates

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// What the policy has as shared, and as shared and exclusive: two storage HCAs.
const shared, both = "pci-0000-29-00-0", "pci-0000-29-00-1"

// bed is a host with eight InfiniBand HCAs for GPUs, and four on Ethernet for storage.
var bed *testbed.Bed

func TestMain(m *testing.M) {
	testbed.Main(m, testbed.Options{
		Machine: "dgx-h100-ib",
		Cluster: cluster.Options{Profile: "1.34", KubeletDir: kubeletDir},
		Values:  testbed.DegradedValues(shared, both),
		GPUs:    true,
	}, &bed)
}

// TestVFs: without counters nothing keeps a PF and its VFs apart, so that the VFs are
// published and their PF is not; and without taints nothing keeps new claims off the VF that
// nobody has configured, so that it is not published.
func TestVFs(t *testing.T) {
	bed.SwitchHost(t, "roce-sriov", testbed.DegradedValues(shared, both))
	const pf, other, vf, unconfigured = "pci-0000-3b-00-0", "pci-0000-3b-00-1", "pci-0000-3b-00-2", "pci-0000-3b-01-1"
	bed.Published(t, []string{vf, other}, []string{pf, "shared-" + pf, unconfigured})
	n := bed.Namespace(t)
	n.Apply(testbed.Template("vf", "vf.hca.rdma.dev", "") + testbed.Pod("app", "resourceClaimTemplateName: vf"))
	n.Ready("app")
	n.Expect("app", "app", n.ClaimOf("app").Results()[0].Device)
}

// TestMonitoring: monitoring needs none of the gates.
func TestMonitoring(t *testing.T) {
	n := bed.Namespace(t)
	bed.Kubectl(t, "label", "namespace", n.Name, "resource.kubernetes.io/admin-access=true")
	n.Example("monitoring")
	n.Kubectl("rollout", "status", "daemonset/hca-monitor", "--timeout="+testbed.Patience.String())
	for _, c := range n.Claims() {
		for _, r := range c.Results() {
			test.True(t, r.AdminAccess, test.Sprintf("%s was not given for administration", r.Device))
		}
	}
}
