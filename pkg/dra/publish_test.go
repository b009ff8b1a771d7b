package dra_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
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
				if len(s.OwnerReferences) != 1 || s.OwnerReferences[0].Name != drivertest.NodeName {
					t.Errorf("slice %d is owned by %v, want the node, with which it goes", i, s.OwnerReferences)
				}
			}
		})
	}
}

// TestUnchangedIsNotWritten: neither a restart of the driver nor one of the
// kubelet writes slices that are as they should be.
func TestUnchangedIsNotWritten(t *testing.T) {
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
	if got := n.Writes() - writes; got != 0 {
		t.Errorf("%d writes for nothing: %v", got, n.Requests())
	}
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

// TestNothingToPublish: an empty pool, and the reason in the log.
func TestNothingToPublish(t *testing.T) {
	for _, tc := range []struct {
		name, machine, runtime string
		reason, event          string
	}{
		{"exclusive namespaces", "exclusive-netns", "containerd://2.1.0", "exclusive RDMA network namespace mode", ""},
		{"no RDMA", "none", "containerd://2.1.0", "Publishing ResourceSlices", ""},
		{"containerd 1.7", "hgx-h100", "containerd://1.7.24", "leaves out CDI devices without an error unless enable_cdi", "NoRDMADevices"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, tc.machine)
			n.SetRuntime(tc.runtime)
			d := start(t, n)
			slices := drivertest.WaitPublished(t, n)
			if len(slices) != 1 || len(slices[0].Spec.Devices) != 0 {
				t.Errorf("published %v, want one empty slice", slices)
			}
			d.says(tc.reason)
			events := n.Events()
			if tc.event == "" && len(events) == 0 {
				return
			}
			if len(events) != 1 || events[0].Reason != tc.event || events[0].InvolvedObject.Name != drivertest.NodeName ||
				!strings.Contains(events[0].Message, tc.reason) || !strings.Contains(events[0].Message, "runtime-cdi-enabled") {
				t.Errorf("events are %v, want %s with the reason and the remedy", events, tc.event)
			}
		})
	}
}

// TestConfirmedRuntime: an administrator who set enable_cdi says so.
func TestConfirmedRuntime(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	n.SetRuntime("containerd://1.7.24")
	start(t, n, func(c *dra.Config) { c.RuntimeCDI = true })
	if slices := drivertest.WaitPublished(t, n); len(slices[0].Spec.Devices) != 9 {
		t.Errorf("published %v, want the nine HCAs", slices)
	}
	if events := n.Events(); len(events) != 0 {
		t.Errorf("events are %v, want none", events)
	}
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
	if _, err := n.Prepare(drivertest.Context(t), c); err == nil || !strings.Contains(err.Error(), "claim team-a/claim-1") {
		t.Errorf("a claim that cannot be read: error is %v", err)
	}
	unprepare(t, n, c)
	wantFiles(t, n)
}

// TestPublishedAgain: slices that the API server does not take are tried again until it
// does.
func TestPublishedAgain(t *testing.T) {
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
