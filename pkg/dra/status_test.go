package dra_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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

// TestStatusErrors: an API server in trouble is asked again, one that says no is not.
func TestStatusErrors(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
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
	test.Nil(t, n.DeviceStatus(again), test.Sprint("the status of a new claim"))
}

// withForeign adds a device of another driver to a claim, and what that one tells of it.
func withForeign(c *resourceapi.ResourceClaim, data string) *resourceapi.ResourceClaim {
	c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
		Request: "gpu", Driver: "gpu.example.com", Pool: drivertest.NodeName, Device: "gpu-0",
	})
	c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: "gpu.example.com", Pool: drivertest.NodeName, Device: "gpu-0", Data: &runtime.RawExtension{Raw: []byte(data)},
	}}
	return c
}

// TestStatusKeepsBytes: the API server takes JSON with other bytes for another allocation, and for another driver's
// word. Server-side apply changes bytes that Go would have written otherwise; then the claim is written whole.
func TestStatusKeepsBytes(t *testing.T) {
	t.Parallel()
	opaque := func(parameters string) func(*resourceapi.ResourceClaim) {
		return func(c *resourceapi.ResourceClaim) {
			drivertest.WithParameters(c, "")
			c.Status.Allocation.Devices.Config[0].Opaque.Parameters.Raw = []byte(parameters)
		}
	}
	foreign := func(data string) func(*resourceapi.ResourceClaim) {
		return func(c *resourceapi.ResourceClaim) { withForeign(c, data) }
	}
	for name, tc := range map[string]struct {
		change func(*resourceapi.ResourceClaim)
		puts   int
	}{
		"as Go writes parameters":         {opaque(`{"apiVersion":"rdma.dev/v1alpha1","kind":"HCAConfig"}`), 0},
		"spaces":                          {opaque(`{"apiVersion": "rdma.dev/v1alpha1", "kind": "HCAConfig"}`), 1},
		"keys in another order":           {opaque(`{"kind":"HCAConfig","apiVersion":"rdma.dev/v1alpha1"}`), 1},
		"another driver's data":           {foreign(`{"a":1,"b":12345678901}`), 0},
		"another driver's data otherwise": {foreign(`{"b": 1, "a": 2}`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := drivertest.NewNode(t, "roce-sriov")
			d := start(t, n, withStatus)
			c := drivertest.Claim(1, hca0)
			tc.change(c)
			n.AddClaim(c)
			prepare(t, n, c)
			got := waitStatus(t, n, c)
			ours := got[len(got)-1]
			test.True(t, ours.Driver == "rdma.dev" && ours.Device == hca0, test.Sprintf("%v is not told of", ours))
			test.Eq(t, c.Status.Devices, got[:len(got)-1], test.Cmp(cmpopts.EquateEmpty()),
				test.Sprint("what another driver told"))
			applied, put := n.Count(drivertest.ApplyStatus), n.Count(drivertest.PutStatus)
			test.True(t, applied == 1 && put == tc.puts,
				test.Sprintf("%d times applied and %d times put, want 1 and %d", applied, put, tc.puts))
			test.StrNotContains(t, d.Log.String(), "Status of a claim not written", test.Sprint("the log"))
		})
	}
}

// TestStatusConflict: a claim that is written whole, and that somebody else writes meanwhile, is written again
// as it is then, with what that one wrote.
func TestStatusConflict(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, withStatus)
	c := drivertest.WithParameters(drivertest.Claim(1, hca0), `"memlock": "inherit"`)
	n.AddClaim(c)
	release := n.Hold(drivertest.PutStatus)
	prepare(t, n, c)
	drivertest.Eventually(t, func() error {
		if n.Count(drivertest.PutStatus) == 0 {
			return fmt.Errorf("the claim is not written whole")
		}
		return nil
	})
	withForeign(c, `{"b": 1, "a": 2}`)
	checked := metav1.Condition{Type: "Checked", Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Unix(1, 0)}
	c.Status.Devices = append(c.Status.Devices, resourceapi.AllocatedDeviceStatus{
		Driver: "rdma.dev", Pool: drivertest.NodeName, Device: hca0, Conditions: []metav1.Condition{checked},
	})
	n.AddClaim(c)
	release()
	d.says("Status of a claim not written, trying again")
	wantIBDev(t, n, c, 1, "mlx5_0", metav1.ConditionTrue)
	got := n.DeviceStatus(c)
	test.Eq(t, c.Status.Devices[0], got[0], test.Sprint("what another driver told"))
	conditions := got[1].Conditions
	test.True(t, len(conditions) == 2 && conditions[1] == checked,
		test.Sprintf("conditions are %v, want %v among them", conditions, checked))
}

// TestStatusFollowsTheHost: names of the kernel move, and cards go away.
func TestStatusFollowsTheHost(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	start(t, n, withStatus)
	c := drivertest.Claim(1, hca0)
	n.AddClaim(c, drivertest.Claim(2, hca1))
	prepare(t, n, c)
	wantIBDev(t, n, c, 0, "mlx5_0", metav1.ConditionTrue)
	n.Become(t, drivertest.Swapped(t, "roce-sriov", "mlx5_0", "mlx5_1"))
	prepare(t, n, c) // finds it at once; the driver's own look takes half a minute
	wantIBDev(t, n, c, 0, "mlx5_1", metav1.ConditionTrue)
	n.Become(t, drivertest.Without(t, "roce-sriov", "mlx5_0", "0000:3b:00.0/"))
	refused(t, n, c, "the host has no such RDMA device now")
	wantIBDev(t, n, c, 0, "", metav1.ConditionFalse)
}

// wantIBDev waits until the i-th and last entry in the status of a claim says that.
func wantIBDev(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, i int, ibdev string, ready metav1.ConditionStatus) {
	t.Helper()
	drivertest.Eventually(t, func() error {
		var data report.DeviceData
		got := n.DeviceStatus(c)
		if len(got) != i+1 || got[i].Data == nil {
			return fmt.Errorf("status is %v", got)
		}
		if err := json.Unmarshal(got[i].Data.Raw, &data); err != nil {
			return err
		}
		have := ""
		if len(data.HCAs) == 1 {
			have = data.HCAs[0].IBDev
		}
		if have != ibdev || got[i].Conditions[0].Status != ready {
			return fmt.Errorf("status is %s, %v", got[i].Data.Raw, got[i].Conditions)
		}
		return nil
	})
}

// TestStatusFollowsHealth: the status of a claim says that its HCA is sick, and that it is well again. Each costs one
// write, whatever the kernel says of the link in between, and also over a restart of the driver. A claim on an HCA that
// was never sick has no such condition.
func TestStatusFollowsHealth(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	events := make(chan watch.Signal)
	d := startHearing(t, n, events, quick, withStatus)
	waitTaints(t, n, dev0, "")
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
