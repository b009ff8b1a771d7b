package dra_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func withStatus(c *dra.Config) { c.ClaimStatus = true }

// waitStatus waits until the status of a claim has an entry for each of its
// devices, and returns them.
func waitStatus(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim) []resourceapi.AllocatedDeviceStatus {
	t.Helper()
	var got []resourceapi.AllocatedDeviceStatus
	drivertest.Eventually(t, func() error {
		if got = n.DeviceStatus(c); len(got) != len(c.Status.Allocation.Devices.Results) {
			return fmt.Errorf("status of claim %s has %d devices", c.Name, len(got))
		}
		return nil
	})
	return got
}

// TestStatus: the status has, for each device and each share, the names of its HCAs on the node.
func TestStatus(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	group := []string{"groups:", "- name: all", "  selectors:", `  - cel: {expression: 'device.attributes["rdma.dev"].function == "pf"'}`}
	m := newConfigMap(t, publish("shared", group...)...)
	start(t, n, m.with(t), withStatus)
	waitFor(t, n, "group-all", "shared-"+hca0)
	c := drivertest.Share(1, nil, "shared-"+hca0, "group-all")
	n.AddClaim(c)
	prepare(t, n, c)
	port := []report.PortData{ethernet("ens1f0np0", "fe80::a288:c2ff:fe25:1000", "10.1.0.10")}
	port1 := []report.PortData{ethernet("ens1f1np1", "fe80::a288:c2ff:fe25:1001", "10.1.1.10")}
	first := report.HCAData{Name: hca0, IBDev: "mlx5_0", NodeGUID: "a088:c203:0025:1000", Ports: port}
	second := report.HCAData{Name: hca1, IBDev: "mlx5_1", NodeGUID: "a088:c203:0025:1001", Ports: port1}
	want := []report.DeviceData{{HCAs: []report.HCAData{first}}, {HCAs: []report.HCAData{first, second}}}
	for i, s := range waitStatus(t, n, c) {
		result := c.Status.Allocation.Devices.Results[i]
		if s.Driver != "rdma.dev" || s.Pool != drivertest.NodeName || s.Device != result.Device || *s.ShareID != string(*result.ShareID) {
			t.Errorf("entry %d is of %s/%s/%s, share %s", i, s.Driver, s.Pool, s.Device, *s.ShareID)
		}
		test.True(t, len(s.Conditions) == 1 && s.Conditions[0].Type == "Ready" &&
			s.Conditions[0].Status == metav1.ConditionTrue && s.Conditions[0].Reason == "Prepared",
			test.Sprintf("conditions are %v", s.Conditions))
		var data report.DeviceData
		must.NoError(t, json.Unmarshal(s.Data.Raw, &data))
		test.Eq(t, want[i], data, test.Sprint("data"))
		test.Nil(t, s.NetworkData, test.Sprintf("an interface of the host is that of a pod: %v", s.NetworkData))
	}
}

// gidTable is what the kernel makes of addresses: each twice.
// ethernet is the first port of an HCA with that interface.
func ethernet(netdev string, addresses ...string) report.PortData {
	return report.PortData{Number: 1, LinkLayer: "Ethernet", Netdev: netdev, GIDs: gidTable(netdev, addresses...)}
}

func gidTable(netdev string, addresses ...string) (out []report.GIDData) {
	for _, a := range addresses {
		for _, kind := range []string{"IB/RoCE v1", "RoCE v2"} {
			out = append(out, report.GIDData{Index: len(out), GID: a, Type: kind, Netdev: netdev})
		}
	}
	return out
}

// TestStatusNetwork: the interface that a CNI plugin moved into the pod stands in the status
// once a container has begun, by what the GIDs tell of it. They outlive the move.
func TestStatusNetwork(t *testing.T) {
	n, dir := drivertest.NewNode(t, "roce-sriov"), t.TempDir()
	events := make(chan watch.Signal)
	startHearing(t, n, events, withStatus, func(c *dra.Config) { c.Hook.ReportDir = dir })
	c := drivertest.Claim(1, "pci-0000-3b-00-2")
	n.AddClaim(c)
	prepare(t, n, c)
	test.Nil(t, waitStatus(t, n, c)[0].NetworkData, test.Sprint("before the pod has it"))
	n.Become(t, drivertest.Without(t, "roce-sriov", "net/ens1f0v0"))
	events <- watch.Signal{Changes: rdma.Changes{All: true}}
	leaveReport(t, dir, c, func(*record.Report) {})
	want := &resourceapi.NetworkDeviceData{InterfaceName: "ens1f0v0", IPs: []string{"10.1.0.20/32"}, HardwareAddress: "a0:88:c2:25:10:20"}
	drivertest.Eventually(t, func() error {
		if diff := cmp.Diff(want, n.DeviceStatus(c)[0].NetworkData); diff != "" {
			return fmt.Errorf("networkData (-want +got):\n%s", diff)
		}
		return nil
	})
}

// TestStatusIsOutOfTheWay: nobody waits for the status, and what is there is not
// written again.
func TestStatusIsOutOfTheWay(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	release := n.Hold(drivertest.ApplyStatus)
	d := start(t, n, withStatus)
	claims := []*resourceapi.ResourceClaim{drivertest.Claim(1, hca0), drivertest.Claim(2, hca1), drivertest.Claim(3, vf0)}
	n.AddClaim(claims...)
	gets := n.Count(drivertest.GetClaim)
	for _, c := range claims {
		prepare(t, n, c)
	}
	// The sweep of orphans at the start may have met them too.
	got := n.Count(drivertest.GetClaim) - gets
	test.True(t, got >= len(claims) && got <= 2*len(claims),
		test.Sprintf("%d claims took %d GETs, want one each", len(claims), got))
	release()
	var before []resourceapi.AllocatedDeviceStatus
	for _, c := range claims {
		before = append(before, waitStatus(t, n, c)...)
	}
	d.stop()
	start(t, n, withStatus)
	drivertest.Eventually(t, func() error { // it looks for orphans too
		if got := n.Count(drivertest.GetClaim) - gets; got < 3*len(claims) {
			return fmt.Errorf("the new driver has looked at %d claims", got-len(claims))
		}
		return nil
	})
	for _, c := range claims { // prepared again, with what the API server says now
		prepare(t, n, c)
	}
	unprepare(t, n, claims...)
	test.Eq(t, len(claims), n.Count(drivertest.ApplyStatus), test.Sprint("the status was written"))
	var after []resourceapi.AllocatedDeviceStatus
	for _, c := range claims {
		after = append(after, n.DeviceStatus(c)...)
	}
	test.Eq(t, before, after, test.Sprint("status"))
}

// TestStatusFollowsHealth: the status of a claim says that its HCA is sick, and that it is well again. Each costs one
// write, whatever the kernel says of the link in between, and also over a restart of the driver. A claim on an HCA that
// was never sick has no such condition.
func TestStatusFollowsHealth(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	events := make(chan watch.Signal)
	d := startHearing(t, n, events, quick, withStatus)
	drivertest.WaitTaints(t, n, dev0, "")
	c, other := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	n.AddClaim(c, other)
	prepare(t, n, c)
	prepare(t, n, other)
	for _, claim := range []*resourceapi.ResourceClaim{c, other} {
		test.Nil(t, healthyOf(waitStatus(t, n, claim)),
			test.Sprintf("%s, whose HCA was never sick, has the condition", claim.Name))
	}
	wait := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		drivertest.Eventually(t, func() error {
			got := healthyOf(n.DeviceStatus(c))
			if got == nil || got.Status != status || got.Reason != reason || !strings.HasPrefix(got.Message, message) {
				return fmt.Errorf("the condition is %v, want %s %s with %q", got, status, reason, message)
			}
			return nil
		})
	}
	const down = "mlx5_0: port 1 is DOWN (Disabled)"
	portDown(t, n, "mlx5_0")
	events <- of("mlx5_0")
	wait(metav1.ConditionFalse, "RDMAPortDown", down)
	gets := n.Count(drivertest.GetClaim)
	portPolls(t, n, "mlx5_0")
	events <- of("mlx5_0")
	d.stop()
	events = make(chan watch.Signal)
	startHearing(t, n, events, quick, withStatus)
	drivertest.Eventually(t, func() error { // by the sweep of orphans and by the status, for each claim
		if got := n.Count(drivertest.GetClaim) - gets; got < 4 {
			return fmt.Errorf("the new driver has read claims %d times", got)
		}
		return nil
	})
	wait(metav1.ConditionFalse, "RDMAPortDown", down)
	portUp(t, n, "mlx5_0")
	events <- of("mlx5_0")
	wait(metav1.ConditionTrue, "Recovered", "")
	unprepare(t, n, c, other)
	test.Eq(t, 4, n.Count(drivertest.ApplyStatus), test.Sprint("the status was written"))
}

// healthyOf returns the condition Healthy of the first device, nil for none.
func healthyOf(devices []resourceapi.AllocatedDeviceStatus) *metav1.Condition {
	return meta.FindStatusCondition(devices[0].Conditions, "Healthy")
}
