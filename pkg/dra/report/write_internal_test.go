package report

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Two ports of a RoCE card of the machine roce-sriov, and a VF of the first.
const (
	hca0 = "pci-0000-3b-00-0"
	hca1 = "pci-0000-3b-00-1"
	vf0  = "pci-0000-3b-00-4"
)

// writing is a ClaimStatus that runs, with the prepared claims of a node.
type writing struct {
	*ClaimStatus
	*drivertest.Node
	*drivertest.Running

	t     *testing.T
	store *claimstore.Store
}

// write runs the ClaimStatus of a node until the end of the test.
func write(t *testing.T) *writing {
	t.Helper()
	n := drivertest.NewNode(t, "roce-sriov")
	store, err := claimstore.Open(n.StateDir, claimstore.Boot{ID: "boot"})
	must.NoError(t, err)
	of, err := node.Open(node.Config{HostRoot: n.Root, Store: store, Health: health.DefaultConfig(), Now: time.Now})
	must.NoError(t, err)
	limits := budget.Default()
	limits.Spacing = 10 * time.Millisecond
	s := NewClaimStatus(Config{
		Client: n.Client(t), Node: of, NodeName: drivertest.NodeName, Memory: store.Memory(), Clock: clock.RealClock{},
		Budget: budget.New(limits, clock.RealClock{}, rand.Float64), Yield: func(context.Context) {},
		Attached: func(*plan.Plan, plan.Device) *resourceapi.NetworkDeviceData { return nil },
	})
	return &writing{s, n, drivertest.Run(t, untilCancelled{s}), t, store}
}

// untilCancelled runs a ClaimStatus as a driver.
type untilCancelled struct{ *ClaimStatus }

func (u untilCancelled) Run(ctx context.Context) error {
	u.ClaimStatus.Run(ctx)
	return nil
}

// prepares prepares a claim as the API server has it.
func (w *writing) prepares(c *resourceapi.ResourceClaim) {
	w.t.Helper()
	p, err := plan.New(c, plan.Facts{Pool: drivertest.NodeName, Site: plan.DefaultSite()})
	must.NoError(w.t, err)
	must.NoError(w.t, w.store.Claim(w.t.Context(), p))
	w.Prepared(c.DeepCopy())
}

// becomes changes the hardware of the host.
func (w *writing) becomes(m *fixture.Machine) {
	w.t.Helper()
	w.Become(w.t, m)
	must.NoError(w.t, w.cfg.Node.Rescan())
	w.HostChanged()
}

// written waits until the status of a claim has an entry for each of its devices, and returns them.
func (w *writing) written(c *resourceapi.ResourceClaim) (got []resourceapi.AllocatedDeviceStatus) {
	w.t.Helper()
	drivertest.Eventually(w.t, func() error {
		if got = w.DeviceStatus(c); len(got) != len(c.Status.Allocation.Devices.Results) {
			return fmt.Errorf("status of claim %s has %d devices", c.Name, len(got))
		}
		return nil
	})
	return got
}

// wants waits until the i-th and last entry in the status of a claim has an HCA, "" for none.
func (w *writing) wants(c *resourceapi.ResourceClaim, i int, ibdev string, ready metav1.ConditionStatus) {
	w.t.Helper()
	drivertest.Eventually(w.t, func() error {
		var data DeviceData
		got := w.DeviceStatus(c)
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

// TestStatusErrors: an API server in trouble is asked again, one that says no is not.
func TestStatusErrors(t *testing.T) {
	t.Parallel()
	w := write(t)
	w.Fail(drivertest.ApplyStatus, http.StatusServiceUnavailable)
	one, two, gone := drivertest.Claim(1, hca0), drivertest.Claim(2, hca1), drivertest.Claim(3, vf0)
	w.AddClaim(one, two)
	w.prepares(one)
	w.WaitLog("Status of a claim not written, trying again")
	w.Fail(drivertest.ApplyStatus, 0)
	w.written(one)

	w.Fail(drivertest.ApplyStatus, http.StatusForbidden)
	w.prepares(two)
	w.WaitLog("The driver may not write the status of claims")
	w.Fail(drivertest.ApplyStatus, 0)

	// A claim that was deleted and made again under its name is another one.
	release := w.Hold(drivertest.ApplyStatus)
	w.AddClaim(gone)
	w.prepares(gone)
	again := gone.DeepCopy()
	again.UID = "00000000-0000-4000-8000-0000000000ff"
	w.AddClaim(again)
	release()
	count := w.Count(drivertest.ApplyStatus)
	w.Ended(one.UID)
	w.AddClaim(one)
	w.prepares(one)
	drivertest.Eventually(t, func() error {
		if w.Count(drivertest.ApplyStatus) <= count {
			return fmt.Errorf("the status of another claim is not written")
		}
		return nil
	})
	test.Nil(t, w.DeviceStatus(again), test.Sprint("the status of a new claim"))
}

// withForeign adds a device of another driver to a claim, and what that one tells of it.
func withForeign(c *resourceapi.ResourceClaim, data string) *resourceapi.ResourceClaim {
	results := &c.Status.Allocation.Devices.Results
	*results = append(*results, resourceapi.DeviceRequestAllocationResult{
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
			w := write(t)
			c := drivertest.Claim(1, hca0)
			tc.change(c)
			w.AddClaim(c)
			w.prepares(c)
			got := w.written(c)
			ours := got[len(got)-1]
			test.True(t, ours.Driver == "rdma.dev" && ours.Device == hca0, test.Sprintf("%v is not told of", ours))
			test.Eq(t, c.Status.Devices, got[:len(got)-1], test.Cmp(cmpopts.EquateEmpty()),
				test.Sprint("what another driver told"))
			applied, put := w.Count(drivertest.ApplyStatus), w.Count(drivertest.PutStatus)
			test.True(t, applied == 1 && put == tc.puts,
				test.Sprintf("%d times applied and %d times put, want 1 and %d", applied, put, tc.puts))
			test.StrNotContains(t, w.Log.String(), "Status of a claim not written", test.Sprint("the log"))
		})
	}
}

// TestStatusConflict: a claim that is written whole, and that somebody else writes meanwhile, is written again
// as it is then, with what that one wrote.
func TestStatusConflict(t *testing.T) {
	t.Parallel()
	w := write(t)
	c := drivertest.WithParameters(drivertest.Claim(1, hca0), `"memlock": "inherit"`)
	w.AddClaim(c)
	release := w.Hold(drivertest.PutStatus)
	w.prepares(c)
	drivertest.Eventually(t, func() error {
		if w.Count(drivertest.PutStatus) == 0 {
			return fmt.Errorf("the claim is not written whole")
		}
		return nil
	})
	withForeign(c, `{"b": 1, "a": 2}`)
	checked := metav1.Condition{
		Type: "Checked", Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Unix(1, 0),
	}
	c.Status.Devices = append(c.Status.Devices, resourceapi.AllocatedDeviceStatus{
		Driver: "rdma.dev", Pool: drivertest.NodeName, Device: hca0, Conditions: []metav1.Condition{checked},
	})
	w.AddClaim(c)
	release()
	w.WaitLog("Status of a claim not written, trying again")
	w.wants(c, 1, "mlx5_0", metav1.ConditionTrue)
	got := w.DeviceStatus(c)
	test.Eq(t, c.Status.Devices[0], got[0], test.Sprint("what another driver told"))
	conditions := got[1].Conditions
	test.True(t, len(conditions) == 2 && conditions[1] == checked,
		test.Sprintf("conditions are %v, want %v among them", conditions, checked))
}

// TestStatusFollowsTheHost: names of the kernel move, and cards go away.
func TestStatusFollowsTheHost(t *testing.T) {
	t.Parallel()
	w := write(t)
	c := drivertest.Claim(1, hca0)
	w.AddClaim(c)
	w.prepares(c)
	w.wants(c, 0, "mlx5_0", metav1.ConditionTrue)
	w.becomes(drivertest.Swapped(t, "roce-sriov", "mlx5_0", "mlx5_1"))
	w.wants(c, 0, "mlx5_1", metav1.ConditionTrue)
	w.becomes(drivertest.Without(t, "roce-sriov", "mlx5_0", "0000:3b:00.0/"))
	w.wants(c, 0, "", metav1.ConditionFalse)
}
