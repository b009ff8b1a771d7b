package dra_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var errNotAsked = errors.New("the driver did not ask the API server yet")

// TestPublish: what arrives at the API server is what package resources makes,
// whose golden files say the rest.
func TestPublish(t *testing.T) {
	for _, machine := range []string{"roce-sriov", "misbehaving"} {
		t.Run(machine, func(t *testing.T) {
			n := drivertest.NewNode(t, machine)
			start(t, n)
			snap := rdmatest.Snapshot(t, machine)
			want := policy.Default().Apply(snap, policy.State{}).Slices()
			got := drivertest.WaitPublished(t, n)
			must.Eq(t, len(want), len(got), must.Sprint("slices are published"))
			for i, s := range got {
				for j := range s.Spec.Devices {
					s.Spec.Devices[j].Taints = nil // TestTaint and the tests of package health
				}
				test.Eq(t, want[i].Devices, s.Spec.Devices, test.Sprintf("slice %d", i))
				if s.Spec.Driver != "rdma.dev" || *s.Spec.NodeName != drivertest.NodeName || s.Spec.Pool.Name != drivertest.NodeName {
					t.Errorf("slice %d is of %s, node %s, pool %s", i, s.Spec.Driver, *s.Spec.NodeName, s.Spec.Pool.Name)
				}
				test.True(t, len(s.OwnerReferences) == 1 && s.OwnerReferences[0].Name == drivertest.NodeName,
					test.Sprintf("slice %d is owned by %v, want the node, with which it goes", i, s.OwnerReferences))
			}
		})
	}
}

// TestUnchangedIsNotWritten: neither a restart of the driver nor one of the
// kubelet writes slices that are as they should be.
func TestUnchangedIsNotWritten(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n)
	before := drivertest.WaitPublished(t, n)
	d.stop()
	test.Eq(t, before, n.Slices(), test.Sprint("a clean stop changed the slices"))
	writes := n.Writes()
	watches, looks := n.Count(drivertest.WatchSlices), n.Count(drivertest.GetNode)
	d = start(t, n)
	// At its start, and with each registration, it looks at the node before it publishes.
	lookedAt := func(times int) {
		t.Helper()
		drivertest.Eventually(t, func() error {
			if got := n.Count(drivertest.GetNode) - looks; n.Count(drivertest.WatchSlices) == watches || got < times {
				return fmt.Errorf("the driver looked %d times at the node, want %d", got, times)
			}
			return nil
		})
	}
	lookedAt(2)
	n.Restart()
	lookedAt(3)
	d.stop()
	got := n.Writes() - writes
	test.Eq(t, 0, got, test.Sprintf("%d writes for nothing: %v", got, n.Requests()))
}

// TestKubeletRestart: a kubelet that starts wipes the slices of its node, before or after it
// registers the driver. They are back at once.
func TestKubeletRestart(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	start(t, n)
	before := drivertest.WaitPublished(t, n)
	n.Restart()
	n.WipeSlices()
	drivertest.Eventually(t, func() error { return drivertest.Published(n) })
	after := n.Slices()
	must.Eq(t, len(before), len(after), must.Sprint("slices are back"))
	for i := range before {
		test.Eq(t, before[i].Spec.Devices, after[i].Spec.Devices,
			test.Sprintf("slice %d is back with other devices", i))
	}
}

// TestNothingToPublish: a node without devices has no slice, since autoscalers compare only devices on a node that has one
// (kubernetes/autoscaler, simulator/utilization/info.go). A slice of before is deleted. An event has the reason.
func TestNothingToPublish(t *testing.T) {
	for _, tc := range []struct {
		name, machine, runtime string
		reason, kind           string
		rules                  []string
	}{
		{"exclusive namespaces", "exclusive-netns", "containerd://2.1.0", "network namespace mode is exclusive", "Warning", nil},
		{"no RDMA", "none", "containerd://2.1.0", "the kernel lists no RDMA device in /sys/class/infiniband", "Normal", nil},
		{"containerd 1.7", "hgx-h100", "containerd://1.7.24", "leaves out CDI devices without an error unless enable_cdi", "Warning", nil},
		{"policy", "roce-lag", "containerd://2.1.0", "rule off says so", "Warning", []string{"rules: [{name: off, publish: none}]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, tc.machine)
			n.SetRuntime(tc.runtime)
			ofBefore := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "00000-of-before"}, Spec: resourceapi.ResourceSliceSpec{
				Driver: rdma.Domain, NodeName: new(drivertest.NodeName), Pool: resourceapi.ResourcePool{Name: drivertest.NodeName, Generation: 1, ResourceSliceCount: 1},
			}}
			_, err := n.Client(t).ResourceV1().ResourceSlices().Create(t.Context(), ofBefore, metav1.CreateOptions{})
			must.NoError(t, err)
			d := start(t, n, newConfigMap(t, tc.rules...).with(t))
			drivertest.Eventually(t, func() error {
				events := n.Events()
				if slices := n.Slices(); len(slices) != 0 || len(events) != 1 {
					return fmt.Errorf("slices %v, events %v", slices, events)
				}
				e := events[0]
				test.True(t, e.Reason == "NoRDMADevices" && e.Type == tc.kind &&
					e.InvolvedObject.Name == drivertest.NodeName && strings.Contains(e.Message, tc.reason),
					test.Sprintf("the event is %v, want the reason", e))
				return nil
			})
			drivertest.Eventually(t, func() error {
				if page := d.Status(drivertest.Context(t)); strings.Contains(strings.Join(page.Problems, ""), "has not had") {
					return errors.New("what is wanted counts as lost")
				}
				return nil
			})
			test.Eq(t, 3, n.Writes(), test.Sprint("writes"))
		})
	}
}

// TestHCAsComeAndGo: HCAs that come after the driver, a host that loses all, and a reload of the kernel module. What claims
// hold stays published, so that nothing is written of it. Each change is one write.
func TestHCAsComeAndGo(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "none")
	events := make(chan watch.Signal)
	startHearing(t, n, events, func(c *dra.Config) { c.Policy = policy.Default() }) // one write a second at most
	counted := func(m *fixture.Machine, devices, writes int) {
		t.Helper()
		before := n.Writes() - n.Count(drivertest.CreateEvent) - n.Count(drivertest.PatchEvent)
		n.Become(t, m)
		events <- watch.Signal{Changes: rdma.Changes{All: true}}
		drivertest.Eventually(t, func() error {
			if got := len(drivertest.DeviceNames(n.Slices())); got != devices || (len(n.Slices()) == 0) != (devices == 0) {
				return fmt.Errorf("%d slices with %d devices, want %d devices", len(n.Slices()), got, devices)
			}
			return nil
		})
		got := n.Writes() - n.Count(drivertest.CreateEvent) - n.Count(drivertest.PatchEvent) - before
		test.Eq(t, writes, got, test.Sprintf("%d writes for %d devices, want %d", got, devices, writes))
	}
	all, gone := drivertest.Without(t, "hgx-h100"), drivertest.Without(t, "hgx-h100", "mlx5_", "uverbs", "umad", "issm")
	counted(all, 9, 1)
	counted(gone, 0, 1)
	counted(all, 9, 1)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	prepare(t, n, c)
	counted(gone, 1, 1)
	counted(all, 9, 1)
	test.LessEq(t, 5, n.Count(drivertest.CreateEvent)+n.Count(drivertest.PatchEvent),
		test.Sprint("writes of events"))
}

// TestConfirmedRuntime: an administrator who set enable_cdi says so.
func TestConfirmedRuntime(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	n.SetRuntime("containerd://1.7.24")
	start(t, n, func(c *dra.Config) { c.RuntimeCDI = true })
	slices := drivertest.WaitPublished(t, n)
	test.Len(t, 9, slices[0].Spec.Devices, test.Sprintf("published %v, want the nine HCAs", slices))
	events := n.Events()
	test.Len(t, 0, events, test.Sprintf("events are %v, want none", events))
}

// TestExclusiveHostRefusesClaims: what was allocated before the mode changed is
// refused with the reason.
func TestExclusiveHostRefusesClaims(t *testing.T) {
	n := drivertest.NewNode(t, "exclusive-netns")
	start(t, n)
	c := drivertest.Claim(1, "pci-0000-3b-00-0")
	n.AddClaim(c)
	refused(t, n, c, "exclusive RDMA network namespace mode", "options ib_core netns_mode=1", "claim team-a/claim-1")
}

// TestAPIServerAway: without an API server the driver serves what needs none, and
// publishes when it is there.
func TestAPIServerAway(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	prepare(t, n, c)
	d.stop()
	for _, request := range []string{drivertest.GetNode, drivertest.ListSlices, drivertest.WatchSlices} {
		n.Fail(request, 500)
	}
	n.Fail(drivertest.GetClaim, 403) // a 500 would be asked again for a while
	d = start(t, n)
	d.says("Nothing is published yet")
	_, err := n.Prepare(drivertest.Context(t), c)
	test.ErrorContains(t, err, "claim team-a/claim-1", test.Sprint("a claim that cannot be read"))
	unprepare(t, n, c)
	wantFiles(t, n)
}

// TestPublishedAgain: slices that the API server does not take are tried again until it
// does.
func TestPublishedAgain(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	n.Fail(drivertest.CreateSlice, http.StatusServiceUnavailable)
	start(t, n)
	drivertest.Eventually(t, func() error {
		if count := n.Count(drivertest.CreateSlice); count < 4 {
			return fmt.Errorf("tried %d times", count)
		}
		return nil
	})
	n.Fail(drivertest.CreateSlice, 0)
	drivertest.WaitPublished(t, n)
}
