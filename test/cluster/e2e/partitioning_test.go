package e2e

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

var (
	//go:embed testdata/partitioning.yaml
	partitioning string
	//go:embed testdata/sriov.yaml
	sriov string
)

// stillPending asserts that a waiting pod has not started since something changed: the
// scheduler has had another one like it after that, and found nothing for it.
func stillPending(n *testbed.Namespace, pod, template string) {
	another := pod + "-again"
	n.Apply(testbed.PodFor(another, template))
	n.Pending(another)
	n.Pending(pod)
	n.Delete(another)
}

// TestPartitioning: with counters, an HCA is offered whole and in shares at a time, and
// what excludes what holds.
func TestPartitioning(t *testing.T) {
	bed.Configure(t, partitioning)
	bed.Published(t, []string{testbed.Storage, testbed.SharedStorage, "group-all"}, nil)
	t.Run("whole waits for shares", func(t *testing.T) {
		n := bed.Namespace(t)
		n.Apply(testbed.RequestFor("whole", "hca.rdma.dev", "0000:52:00.0") + testbed.RequestFor("share", "shared.hca.rdma.dev", "0000:52:00.0") +
			testbed.PodFor("first", "share") + testbed.PodFor("second", "share"))
		n.Ready("first", "second")
		n.Apply(testbed.PodFor("whole", "whole"))
		n.Pending("whole")
		n.Delete("first")
		stillPending(n, "whole", "whole")
		n.Delete("second")
		n.Ready("whole")
		n.Expect("whole", "app", testbed.Storage)
		n.Apply(testbed.PodFor("first", "share"))
		n.Pending("first")
		n.Delete("whole")
		n.Ready("first")
	})
	t.Run("group", func(t *testing.T) {
		n := bed.Namespace(t)
		n.Example("group")
		n.Ready("group")
		if got := strings.Fields(n.Look("group", "app").Nodes); len(got) != 10 {
			t.Errorf("the group's container sees %q, want nine HCAs and rdma_cm", got)
		}
		n.Apply(testbed.RequestFor("whole", "hca.rdma.dev", "0000:52:00.0") + testbed.RequestFor("share", "shared.hca.rdma.dev", "0000:52:00.0") +
			testbed.PodFor("share", "share") + testbed.PodFor("whole", "whole"))
		n.Ready("share")
		n.Pending("whole")
		n.Delete("group", "share")
		n.Ready("whole")
	})
	t.Run("monitoring", monitoringNeedsCounters)
}

// monitoringNeedsCounters: until https://github.com/kubernetes/kubernetes/issues/140729 is
// fixed, a monitor of an HCA that somebody has whole waits for it. When this test
// fails, the fix is there: correct docs/sharing.md.
func monitoringNeedsCounters(t *testing.T) {
	n := bed.Namespace(t)
	bed.Kubectl(t, "label", "namespace", n.Name, testbed.AdminLabel+"=true")
	n.Apply(testbed.RequestFor("whole", "hca.rdma.dev", "0000:52:00.0") + testbed.PodFor("whole", "whole"))
	n.Ready("whole")
	monitor := strings.Replace(testbed.RequestFor("monitor", "hca.rdma.dev", "0000:52:00.0"), "deviceClassName:", "adminAccess: true\n          deviceClassName:", 1)
	n.Apply(monitor + testbed.PodFor("monitor", "monitor"))
	n.Pending("monitor")
	n.Delete("whole")
	n.Ready("monitor")
}

// TestSRIOV: a PF that one claim has whole and its VFs are never given out together;
// shares of the PF and VFs are. The VF that nobody has configured is tainted.
func TestSRIOV(t *testing.T) {
	bed.SwitchHost(t, "roce-sriov", sriov)
	const pf, vf, unconfigured = "pci-0000-3b-00-0", "pci-0000-3b-00-2", "pci-0000-3b-01-1"
	bed.Published(t, []string{pf, "shared-" + pf, vf, unconfigured}, []string{testbed.Storage})
	for name, d := range bed.Devices(t) {
		if tainted := len(d.Taints) > 0; tainted != (name == unconfigured) {
			t.Errorf("%s has taints %v", name, d.Taints)
		}
	}
	n := bed.Namespace(t)
	n.Example("card")
	n.Ready("card")
	both := []string{pf, "pci-0000-3b-00-1"} // the PFs of the card
	if r := n.ClaimOf("card").Results(); len(r) != 2 || !slices.Contains(both, r[0].Device) ||
		!slices.Contains(both, r[1].Device) {
		t.Errorf("card has %+v, want %v", r, both)
	}
	n.Delete("card")
	n.Apply(testbed.RequestFor("pf", "hca.rdma.dev", "0000:3b:00.0") + testbed.RequestFor("share", "shared.hca.rdma.dev", "0000:3b:00.0") +
		testbed.Template("vf", "vf.hca.rdma.dev", "") + testbed.PodFor("vf-1", "vf") + testbed.PodFor("vf-2", "vf") + testbed.PodFor("share", "share"))
	n.Ready("vf-1", "vf-2", "share")
	n.Expect("vf-1", "app", n.ClaimOf("vf-1").Results()[0].Device)
	n.Expect("share", "app", "shared-"+pf)
	n.Apply(testbed.PodFor("pf", "pf"))
	n.Pending("pf")
	n.Delete("vf-1", "share")
	stillPending(n, "pf", "pf")
	n.Delete("vf-2")
	n.Ready("pf")
	n.Expect("pf", "app", pf)
}
