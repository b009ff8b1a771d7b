// Package releases proves the driver on an older Kubernetes, with that release's own programs: API server, scheduler,
// controller manager and kubelet. It is the oldest one that the driver supports, or what $KUBERNETES names.
package releases

import (
	"cmp"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/featuregate"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// What the policy has as shared, and as shared and exclusive: two HCAs of one GPU's four.
const shared, both = "pci-0000-4f-00-0", "pci-0000-50-00-0"

// release is the minor version of Kubernetes.
var release = cmp.Or(os.Getenv("KUBERNETES"), "1.34")

// bed is a host with eight switches, each with a GPU and four EFA devices.
var bed *testbed.Bed

func TestMain(m *testing.M) {
	testbed.Main(m, testbed.Options{
		Machine: "aws-p5",
		Cluster: cluster.Options{Kubernetes: release},
		Values:  testbed.DegradedValues(shared, both),
		GPUs:    true,
	}, &bed)
}

func TestVersion(t *testing.T) {
	for what, args := range map[string][]string{
		"kubelet":    {"get", "node", cluster.NodeName, "-o", "jsonpath={.status.nodeInfo.kubeletVersion}"},
		"API server": {"get", "--raw", "/version"},
	} {
		test.StrContains(t, bed.Kubectl(t, args...), "v"+release+".", test.Sprint(what))
	}
}

// on reports whether a feature gate is on by default, by the table that programs and documents have.
func on(t *testing.T, gate string) bool {
	t.Helper()
	minor, err := strconv.Atoi(strings.TrimPrefix(release, "1."))
	must.NoError(t, err)
	return featuregate.On(gate, minor)
}

// TestGates: the API server itself says which of the feature gates of the table it has on.
func TestGates(t *testing.T) {
	enabled := map[string]string{}
	line := regexp.MustCompile(`kubernetes_feature_enabled\{name="(\w+)",stage="\w*"\} ([01])`)
	for _, m := range line.FindAllStringSubmatch(bed.Kubectl(t, "get", "--raw", "/metrics"), -1) {
		enabled[m[1]] = m[2]
	}
	must.MapNotEmpty(t, enabled)
	for _, gate := range featuregate.Gates {
		test.Eq(t, on(t, gate.Name), enabled[gate.Name] == "1", test.Sprint(gate.Name))
	}
	rules := bed.Kubectl(t, "api-resources", "--api-group=resource.k8s.io", "-o", "name")
	test.Eq(t, on(t, featuregate.DeviceTaintRules), strings.Contains(rules, "devicetaintrules"), test.Sprint(rules))
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

// TestEFA: all EFA devices beside a GPU for one pod.
func TestEFA(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("efa")
	n.Ready("efa")
	test.Len(t, 4, n.ClaimOf("efa").Results())
}

// TestShares: shares and counters are there where their feature gates are on. Without, less is offered, and said once.
func TestShares(t *testing.T) {
	if !on(t, featuregate.ConsumableCapacity) {
		bed.Degraded(t, shared, both)
		return
	}
	bed.Published(t, []string{"shared-" + shared, "shared-" + both, both}, []string{shared})
	test.Zero(t, bed.Said("optional feature", "featureGate"))
	n := bed.Namespace(t)
	n.Apply(testbed.Template("share", "shared.hca.rdma.dev", "") + testbed.Pod("one", "resourceClaimTemplateName: share") +
		testbed.Pod("two", "resourceClaimTemplateName: share") + testbed.Pod("three", "resourceClaimTemplateName: share"))
	n.Ready("one", "two", "three") // of two HCAs
	for _, pod := range []string{"one", "two", "three"} {
		test.NotEq(t, "", n.ClaimOf(pod).Results()[0].ShareID, test.Sprint(pod))
	}
}

// TestVFs: without counters nothing keeps a PF and its VFs apart, so that the VFs are published and their PF is not.
// Without taints nothing keeps new claims off the VF that nobody has configured, so that it is not published.
func TestVFs(t *testing.T) {
	if on(t, featuregate.PartitionableDevices) {
		t.Skip("Kubernetes " + release + " has counters: TestSRIOV of package e2e has PFs and VFs with them")
	}
	bed.SwitchHost(t, "roce-sriov", testbed.DegradedValues(shared, both))
	const pf, other, vf, unconfigured = "pci-0000-3b-00-0", "pci-0000-3b-00-1", "pci-0000-3b-00-2", "pci-0000-3b-01-1"
	bed.Published(t, []string{vf, other}, []string{pf, "shared-" + pf, unconfigured})
	n := bed.Namespace(t)
	n.Apply(testbed.Template("vf", "vf.hca.rdma.dev", "") + testbed.Pod("app", "resourceClaimTemplateName: vf"))
	n.Ready("app")
	n.Expect("app", "app", n.ClaimOf("app").Results()[0].Device)
	t.Run("monitoring", needsNoGate)
}

// needsNoGate: a monitor has all HCAs for administration.
func needsNoGate(t *testing.T) {
	n := bed.Namespace(t)
	bed.Kubectl(t, "label", "namespace", n.Name, testbed.AdminLabel+"=true")
	n.Example("monitoring")
	n.Kubectl("rollout", "status", "daemonset/hca-monitor", "--timeout="+testbed.Patience.String())
	for _, c := range n.Claims() {
		for _, r := range c.Results() {
			test.True(t, r.AdminAccess, test.Sprintf("%s was not given for administration", r.Device))
		}
	}
}

// TestStatus: the driver's status says what the API server lacks, and nothing of what it has.
func TestStatus(t *testing.T) {
	status := bed.Inside(t, "kubectl", "-n", deploy.Namespace, "exec", "daemonset/"+deploy.Release, "--",
		"dra-driver", "status")
	for _, gate := range []string{featuregate.ConsumableCapacity, featuregate.PartitionableDevices} {
		test.Eq(t, !on(t, gate), strings.Contains(status, "the API server lacks feature gate "+gate), test.Sprint(status))
	}
}

// TestFirstAvailable: lists of devices need nothing that these releases lack.
func TestFirstAvailable(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("first-available")
	n.Ready("first-available")
}

// TestOldPodWaits: a pod with an extended resource has its HCA where the feature gate is on. Without, it waits, and
// the chart's notes say so.
func TestOldPodWaits(t *testing.T) {
	n := bed.Namespace(t)
	n.Example("legacy-rdma-hca")
	notes := bed.Inside(t, "helm", "get", "notes", deploy.Release, "--namespace", deploy.Namespace)
	warned := testbed.ContainsAll(notes, []string{
		"WARNING: Kubernetes v" + release + ".", "extended resource rdma/hca ", featuregate.ExtendedResource,
	})
	test.Eq(t, !on(t, featuregate.ExtendedResource), warned, test.Sprint(notes))
	if on(t, featuregate.ExtendedResource) {
		n.Ready("mofed-test-pod")
		return
	}
	n.Event("mofed-test-pod", "Insufficient rdma/hca")
	said := bed.Plugin().Why(t, n.Name, "mofed-test-pod")
	test.StrContains(t, said.Summary, "rdma/hca", test.Sprint("kubectl rdma why says"))
	if out := n.Kubectl("get", "resourceclaims", "-o", "name"); strings.TrimSpace(out) != "" {
		t.Errorf("there are claims: %s", out)
	}
}

// TestAlignment: alignment needs nothing that these releases lack.
func TestAlignment(t *testing.T) {
	needs.Long(t, "TestAlignment of package e2e has the same pods, and TestShares this API server")
	n := bed.Namespace(t)
	n.Align("aligned-root", 8, 8, bed.SameRoot)
	n.Align("aligned-pairs", 2, 8, bed.SameRoot)
}

// TestClaimStatusRights: the chart's admission policy keeps a driver from the rest of a claim's status, and since 1.36
// the API server itself does.
func TestClaimStatusRights(t *testing.T) {
	refusal := "for whom it is reserved"
	if release == "1.36" {
		refusal = "resourceclaims/binding"
	}
	bed.ClaimStatusRights(t, refusal)
}
