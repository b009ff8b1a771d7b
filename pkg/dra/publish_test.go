package dra_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

var errNotAsked = errors.New("the driver did not ask the API server yet")

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
	d.WaitLog("Nothing is published yet")
	_, err := n.Prepare(drivertest.Context(t), c)
	test.ErrorContains(t, err, "claim team-a/claim-1", test.Sprint("a claim that cannot be read"))
	unprepare(t, n, c)
	wantFiles(t, n)
}
