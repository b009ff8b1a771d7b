// Package oldest proves the driver on the oldest Kubernetes that it supports, with
// that version's own programs: API server, scheduler, controller manager and kubelet.
package oldest

import (
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// What the policy has as shared, and as shared and exclusive: two HCAs of one GPU's four.
const shared, both = "pci-0000-4f-00-0", "pci-0000-50-00-0"

// bed is a host with eight switches, each with a GPU and four EFA devices.
var bed *testbed.Bed

func TestMain(m *testing.M) {
	testbed.Main(m, testbed.Options{
		Machine: "aws-p5",
		Cluster: cluster.Options{Kubernetes: "1.34"},
		Values:  testbed.DegradedValues(shared, both),
		GPUs:    true,
	}, &bed)
}

func TestVersion(t *testing.T) {
	for what, args := range map[string][]string{
		"kubelet":    {"get", "node", cluster.NodeName, "-o", "jsonpath={.status.nodeInfo.kubeletVersion}"},
		"API server": {"get", "--raw", "/version"},
	} {
		test.StrContains(t, bed.Kubectl(t, args...), "v1.34.", test.Sprint(what))
	}
}

// TestClaim: a pod of the examples gets its HCA, and nothing else.
func TestClaim(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("two-containers")
	n.Ready("two-containers")
	device := n.ClaimOf("two-containers").Results()[0].Device
	n.Expect("two-containers", "sender", device)
	n.Expect("two-containers", "receiver", device)
	n.Told("two-containers")
	if got := n.Look("two-containers", "bystander"); got.Nodes != "" {
		t.Errorf("a container without a claim sees %+v", got)
	}
}

// TestDegraded: what this version lacks by default is offered without, and said once.
func TestDegraded(t *testing.T) { bed.Degraded(t, shared, both) }

// TestOldPodWaits: a pod with an extended resource waits: its feature gate, which is locked by now, is off here. The
// chart's notes say so.
func TestOldPodWaits(t *testing.T) {
	notes := bed.Inside(t, "helm", "get", "notes", deploy.Release, "--namespace", deploy.Namespace)
	test.True(t, testbed.ContainsAll(notes, []string{"WARNING: Kubernetes v1.34.", "extended resource rdma/hca ", "DRAExtendedResource"}),
		test.Sprintf("the notes do not name the feature gate:\n%s", notes))
	n := bed.Namespace(t)
	n.Example("legacy-rdma-hca")
	n.Event("mofed-test-pod", "Insufficient rdma/hca")
	if out := n.Kubectl("get", "resourceclaims", "-o", "name"); strings.TrimSpace(out) != "" {
		t.Errorf("there are claims: %s", out)
	}
}

// TestAlignment: alignment needs nothing that the oldest version lacks.
func TestAlignment(t *testing.T) {
	needs.Long(t, "TestAlignment of package e2e has the same pods, and TestDegraded this API server")
	n := bed.Namespace(t)
	n.Align("aligned-root", 8, 8, bed.SameRoot)
	n.Align("aligned-pairs", 2, 8, bed.SameRoot)
}

// TestClaimStatusRights: here the chart's admission policy keeps a driver from the rest
// of a claim's status.
func TestClaimStatusRights(t *testing.T) { bed.ClaimStatusRights(t, "for whom it is reserved") }
