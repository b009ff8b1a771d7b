package dra_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/watch"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
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

// TestStatus: the status tells of each device, and of each share, by which names the
// node has its HCAs.
func TestStatus(t *testing.T) {
	n := drivertest.NewSharedNode(t, "roce-sriov")
	group := []string{"groups:", "- name: all", "  selectors:", `  - cel: {expression: 'device.attributes["rdma.dev"].function == "pf"'}`}
	m := newConfigMap(t, publish("shared", group...)...)
	start(t, n, m.with(t), withStatus)
	waitFor(t, n, "group-all", "shared-"+hca0)
	c := drivertest.Share(1, nil, "shared-"+hca0, "group-all")
	n.AddClaim(c)
	prepare(t, n, c)
	port := []dra.PortData{{Number: 1, LinkLayer: "Ethernet", Netdev: "ens1f0np0", GIDs: gidTable("ens1f0np0", "fe80::a288:c2ff:fe25:1000", "10.1.0.10")}}
	port1 := []dra.PortData{{Number: 1, LinkLayer: "Ethernet", Netdev: "ens1f1np1", GIDs: gidTable("ens1f1np1", "fe80::a288:c2ff:fe25:1001", "10.1.1.10")}}
	first := dra.HCAData{Name: hca0, IBDev: "mlx5_0", NodeGUID: "a088:c203:0025:1000", Ports: port}
	second := dra.HCAData{Name: hca1, IBDev: "mlx5_1", NodeGUID: "a088:c203:0025:1001", Ports: port1}
	want := []dra.DeviceData{{HCAs: []dra.HCAData{first}}, {HCAs: []dra.HCAData{first, second}}}
	for i, s := range waitStatus(t, n, c) {
		result := c.Status.Allocation.Devices.Results[i]
		if s.Driver != "rdma.dev" || s.Pool != drivertest.NodeName || s.Device != result.Device || *s.ShareID != string(*result.ShareID) {
			t.Errorf("entry %d is of %s/%s/%s, share %s", i, s.Driver, s.Pool, s.Device, *s.ShareID)
		}
		if len(s.Conditions) != 1 || s.Conditions[0].Type != "Ready" || s.Conditions[0].Status != metav1.ConditionTrue || s.Conditions[0].Reason != "Prepared" {
			t.Errorf("conditions are %v", s.Conditions)
		}
		var data dra.DeviceData
		if err := json.Unmarshal(s.Data.Raw, &data); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i], data); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
		if s.NetworkData != nil {
			t.Errorf("an interface of the host is that of a pod: %v", s.NetworkData)
		}
	}
}

// gidTable is what the kernel makes of addresses: each twice.
func gidTable(netdev string, addresses ...string) (out []dra.GIDData) {
	for _, a := range addresses {
		for _, kind := range []string{"IB/RoCE v1", "RoCE v2"} {
			out = append(out, dra.GIDData{Index: len(out), GID: a, Type: kind, Netdev: netdev})
		}
	}
	return out
}

// TestStatusNetwork: the interface that a CNI plugin moved into the pod stands in the status
// once a container has begun, by what the GIDs tell of it. They outlive the move.
func TestStatusNetwork(t *testing.T) {
	n, dir := drivertest.NewSharedNode(t, "roce-sriov"), t.TempDir()
	events := make(chan watch.Signal)
	startHearing(t, n, events, withStatus, func(c *dra.Config) { c.Hook.ReportDir = dir })
	c := drivertest.Claim(1, "pci-0000-3b-00-2")
	n.AddClaim(c)
	prepare(t, n, c)
	if got := waitStatus(t, n, c)[0].NetworkData; got != nil {
		t.Errorf("before the pod has it: %v", got)
	}
	n.Become(t, drivertest.Without(t, "roce-sriov", "net/ens1f0v0"))
	events <- watch.Signal{Changes: rdma.Changes{All: true}}
	report(t, dir, c, func(*hook.Report) {})
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
	n := drivertest.NewSharedNode(t, "roce-sriov")
	release := n.Hold(drivertest.ApplyStatus)
	d := start(t, n, withStatus)
	claims := []*resourceapi.ResourceClaim{drivertest.Claim(1, hca0), drivertest.Claim(2, hca1), drivertest.Claim(3, vf0)}
	n.AddClaim(claims...)
	gets := n.Count(drivertest.GetClaim)
	for _, c := range claims {
		prepare(t, n, c)
	}
	// The sweep of orphans at the start may have met them too.
	if got := n.Count(drivertest.GetClaim) - gets; got < len(claims) || got > 2*len(claims) {
		t.Errorf("%d claims took %d GETs, want one each", len(claims), got)
	}
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
	if got := n.Count(drivertest.ApplyStatus); got != len(claims) {
		t.Errorf("the status was written %d times for %d claims", got, len(claims))
	}
	var after []resourceapi.AllocatedDeviceStatus
	for _, c := range claims {
		after = append(after, n.DeviceStatus(c)...)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
}

// TestStatusErrors: an API server in trouble is asked again, one that says no is not.
func TestStatusErrors(t *testing.T) {
	n := drivertest.NewSharedNode(t, "roce-sriov")
	n.Fail(drivertest.ApplyStatus, http.StatusServiceUnavailable)
	d := start(t, n, withStatus)
	one, two, gone := drivertest.Claim(1, hca0), drivertest.Claim(2, hca1), drivertest.Claim(3, vf0)
	n.AddClaim(one, two)
	prepare(t, n, one)
	d.says("Status of a claim not written, trying again")
	n.Fail(drivertest.ApplyStatus, 0)
	waitStatus(t, n, one)

	n.Fail(drivertest.ApplyStatus, http.StatusForbidden)
	prepare(t, n, two)
	d.says("The driver may not write the status of claims")
	n.Fail(drivertest.ApplyStatus, 0)

	// A claim that was deleted and made again under its name is another one.
	release := n.Hold(drivertest.ApplyStatus)
	n.AddClaim(gone)
	prepare(t, n, gone)
	again := gone.DeepCopy()
	again.UID = "00000000-0000-4000-8000-0000000000ff"
	n.AddClaim(again)
	release()
	count := n.Count(drivertest.ApplyStatus)
	unprepare(t, n, one)
	n.AddClaim(one)
	prepare(t, n, one)
	drivertest.Eventually(t, func() error {
		if n.Count(drivertest.ApplyStatus) <= count {
			return fmt.Errorf("the status of another claim is not written")
		}
		return nil
	})
	if got := n.DeviceStatus(again); got != nil {
		t.Errorf("the status of a new claim has %v of the one before", got)
	}
}

// TestStatusFollowsTheHost: names of the kernel move, and cards go away.
func TestStatusFollowsTheHost(t *testing.T) {
	n := drivertest.NewSharedNode(t, "roce-sriov")
	start(t, n, withStatus)
	c := drivertest.Claim(1, hca0)
	n.AddClaim(c, drivertest.Claim(2, hca1))
	prepare(t, n, c)
	wantIBDev(t, n, c, "mlx5_0", metav1.ConditionTrue)
	n.Become(t, drivertest.Swapped(t, "roce-sriov", "mlx5_0", "mlx5_1"))
	prepare(t, n, c) // finds it at once; the driver's own look takes half a minute
	wantIBDev(t, n, c, "mlx5_1", metav1.ConditionTrue)
	n.Become(t, drivertest.Without(t, "roce-sriov", "mlx5_0", "0000:3b:00.0/"))
	refused(t, n, c, "the host has no such RDMA device now")
	wantIBDev(t, n, c, "", metav1.ConditionFalse)
}

// wantIBDev waits until the status of a claim says that.
func wantIBDev(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ibdev string, ready metav1.ConditionStatus) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		var data dra.DeviceData
		got := n.DeviceStatus(c)
		if len(got) != 1 {
			return fmt.Errorf("status has %d devices", len(got))
		}
		if err := json.Unmarshal(got[0].Data.Raw, &data); err != nil {
			return err
		}
		have := ""
		if len(data.HCAs) == 1 {
			have = data.HCAs[0].IBDev
		}
		if have != ibdev || got[0].Conditions[0].Status != ready {
			return fmt.Errorf("status is %s, %v", got[0].Data.Raw, got[0].Conditions)
		}
		return nil
	})
}
