package dra_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// TestShare: a share has its ID in the answer and in the CDI name, and its part of
// the HCA's capacities is the container's limit.
func TestShare(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, publish("shared", "  handles: 6300", "  objects: 630k")...)
	start(t, n, m.with(t))
	consumed := map[string]string{"handles": "100", "objects": "10k", "bandwidth": "0"}
	one := drivertest.Share(1, consumed, "shared-"+hca0)
	two := drivertest.WithParameters(drivertest.Share(2, consumed, "shared-"+hca0), `"limits": {"handles": 7}`)
	three := drivertest.WithParameters(drivertest.Share(3, consumed, "shared-"+hca0), `"limits": {"handles": 101}`)
	n.AddClaim(one, two, three)
	response, err := n.Prepare(drivertest.Context(t), one, two)
	must.NoError(t, err)
	share := string(*one.Status.Allocation.Devices.Results[0].ShareID)
	want := []*drapb.Device{{
		RequestNames: []string{"r0"}, PoolName: drivertest.NodeName, DeviceName: "shared-" + hca0, ShareId: &share,
		CdiDeviceIds: []string{"rdma.dev/claim=shared-" + hca0 + ".r0." + string(one.UID) + "." + share},
	}}
	test.Eq(t, fmt.Sprint(want), fmt.Sprint(response.Claims[string(one.UID)].GetDevices()), test.Sprint("devices"))
	test.StrContains(t, readSpec(t, n, one), `"mlx5_0:handles=100,objects=10000"`,
		test.Sprint("the hook is not told the limits of the share"))
	test.StrContains(t, readSpec(t, n, two), `"mlx5_0:handles=7,objects=10000"`,
		test.Sprint("the hook is not told the lower limit of the claim"))
	refused(t, n, three, "limits.handles: 101 is more than the claim's share")
	wantFiles(t, n, one, two)
}

// TestGroup: a claim of a group gets all of its HCAs, and keeps those it was given
// when the policy changes.
func TestGroup(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	group := []string{"groups:", "- name: all", "  shares: 4", "  selectors:", `  - cel: {expression: 'device.attributes["rdma.dev"].function == "pf"'}`}
	m := newConfigMap(t, publish("shared", group...)...)
	d := start(t, n, m.with(t))
	waitFor(t, n, "group-all", "shared-"+hca0)
	claim, beside, unknown := drivertest.Share(1, nil, "group-all"), drivertest.Share(2, nil, "shared-"+hca1), drivertest.Share(3, nil, "group-none")
	n.AddClaim(claim, beside, unknown)
	prepare(t, n, claim)
	prepare(t, n, beside)
	refused(t, n, unknown, "device group-none: this node has no such group")
	before := readSpec(t, n, claim)
	for _, part := range []string{"uverbs0", "uverbs1", "RDMA_DEVICE_PCI_0000_3B_00_0=mlx5_0", "RDMA_DEVICE_PCI_0000_3B_00_1=mlx5_1"} {
		test.StrContains(t, before, part, test.Sprint("spec of the group does"))
	}
	m.set(t, publish("exclusive")...)
	drivertest.Eventually(t, func() error {
		published := drivertest.PublishedDevices(n)
		if group, ok := published["group-all"]; !ok || len(group.Taints) == 0 {
			return fmt.Errorf("the group that a claim holds is not draining")
		}
		if _, ok := published[hca0]; ok {
			return fmt.Errorf("%s is published beside a group that holds it", hca0)
		}
		return nil
	})
	d.stop()
	start(t, n, m.with(t))
	prepare(t, n, claim)
	test.Eq(t, before, readSpec(t, n, claim), test.Sprint("spec of the group changed from"))
	unprepare(t, n, claim, beside)
	waitFor(t, n, hca0)
	refused(t, n, claim, "device group-all: this node has no such group")
}

// TestViewsExclude: whichever way an HCA is given, who has it alone has it alone.
func TestViewsExclude(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	m := newConfigMap(t, "groups:", "- name: all", "  selectors:", `  - cel: {expression: 'device.attributes["rdma.dev"].function == "pf"'}`,
		"rules:", "- name: all", "  publish: shared")
	start(t, n, m.with(t))
	waitFor(t, n, "group-all", "shared-"+hca0)
	exclusive, shared, group := drivertest.Claim(1, hca0), drivertest.Share(2, nil, "shared-"+hca0), drivertest.Share(3, nil, "group-all")
	monitor := drivertest.Monitor(4, "shared-"+hca0)
	n.AddClaim(exclusive, shared, group, monitor)
	prepare(t, n, exclusive)
	refused(t, n, shared, "device shared-"+hca0+" is in use by claim team-a/claim-1")
	refused(t, n, group, "device group-all") // in use, or by now not published any more
	prepare(t, n, monitor)
	unprepare(t, n, exclusive)
	prepare(t, n, shared)
	drivertest.Eventually(t, func() error { // the group is published again
		response, err := n.Prepare(drivertest.Context(t), group)
		if err == nil {
			_, err = drivertest.Devices(response, group)
		}
		return err
	})
	refused(t, n, exclusive, "is in use by claim team-a/claim-")
}

// TestCardIsNotHadTwice: with partitioning, a PF and its VF are not prepared for two claims, though
// a scheduler that lost the counters gave them away; without, they are. What is prepared
// stays so when partitioning is turned on.
func TestCardIsNotHadTwice(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	n.GatesOff(drivertest.GateCounters)
	m := newConfigMap(t, "partitioning: true")
	d := start(t, n, m.with(t))
	card, part, watcher, other := drivertest.Claim(1, hca0), drivertest.Claim(2, vf0), drivertest.Monitor(3, vf0), drivertest.Claim(4, hca1)
	n.AddClaim(card, part, watcher, other)
	prepare(t, n, card)
	refused(t, n, part, "device "+vf0, "device "+hca0, "claim team-a/claim-1", "partitioning")
	prepare(t, n, watcher)
	prepare(t, n, other)
	unprepare(t, n, card)
	prepare(t, n, part)
	refused(t, n, card, "device "+hca0, "device "+vf0, "claim team-a/claim-2")
	unprepare(t, n, part)
	d.stop()

	m.set(t, "partitioning: false")
	d = start(t, n, m.with(t))
	prepare(t, n, card)
	prepare(t, n, part)
	d.stop()

	m.set(t, "partitioning: true")
	start(t, n, m.with(t))
	prepare(t, n, card)
	prepare(t, n, part)
}
