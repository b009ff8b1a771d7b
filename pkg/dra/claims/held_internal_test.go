package claims

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/apifault"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
)

// Two pods, and a container of the second.
const (
	podA       = "aaaaaaaa-0000-4000-8000-000000000000"
	podB       = "bbbbbbbb-0000-4000-8000-000000000000"
	containerB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// withReports has the hook leave reports in a directory.
func withReports(t *testing.T) (dir string, option func(*Config)) {
	dir = drivertest.TempDir(t)
	return dir, func(c *Config) { c.Hook.ReportDir = dir }
}

// held is how a claim with a record came to have no end on its node.
type held struct {
	name string
	// becomes makes it so, of a claim that a pod was given.
	becomes func(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string)
	// stays is why the HCA stays held nevertheless, empty if it does not.
	stays string
	// quiet says that nobody need be told: the claim is in use.
	quiet bool
	// away says that the API server does not answer, and is asked until the caller gives up.
	away bool
}

func deallocated(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) {
	n.AddClaim(drivertest.Deallocated(c))
}

var helds = []held{
	{name: "it is in use", becomes: func(*testing.T, *drivertest.Node, *resourceapi.ResourceClaim, []string) {},
		stays: "two claims were given one device", quiet: true},
	{name: "it is gone",
		becomes: func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) {
			n.RemoveClaim(c)
		}},
	{name: "it was deallocated", becomes: deallocated},
	{name: "it is allocated on another node",
		becomes: func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) {
			n.AddClaim(drivertest.Elsewhere(c))
		}},
	{name: "it has another device of the node now",
		becomes: func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) {
			c = c.DeepCopy()
			c.Status.Allocation.Devices.Results[0].Device = dev1
			n.AddClaim(c)
		}},
	{name: "another one has its name",
		becomes: func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) {
			n.AddClaim(drivertest.MadeAnew(c, 9))
		}},
	{name: "another one has its name, and a pod uses it",
		becomes: func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
			next := drivertest.MadeAnew(c, 9)
			n.AddClaim(next)
			n.AddUsingPod("next", next, strings.ReplaceAll(ids[0], string(c.UID), string(next.UID)))
		}},
	{name: "the kubelet lists a pod with it",
		becomes: func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
			n.AddUsingPod("job-0", c, ids...)
			deallocated(nil, n, c, ids)
		}, stays: "the kubelet still lists pod team-a/job-0 with it", quiet: true},
	{name: "the kubelet lists a pod with it, and not by device",
		becomes: func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
			n.AddUsingPod("job-0", c)
			deallocated(nil, n, c, ids)
		}, stays: "the kubelet still lists pod team-a/job-0 with it", quiet: true},
	{name: "the kubelet fails",
		becomes: func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
			deallocated(nil, n, c, ids)
			n.SetPods(errors.New("the kubelet is busy"))
		}, stays: "the kubelet is busy", quiet: true},
	{name: "the API server fails", becomes: deallocated, stays: "look for claim team-a/claim-1", quiet: true, away: true},
	{name: "its pod was deleted by force and runs",
		becomes: func(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
			n.AddPodCgroup(t, podA)
			n.RemoveClaim(c)
		}, stays: "pod " + podA + " got it and still runs"},
	{name: "no cgroup of a pod can be seen",
		becomes: func(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
			n.HideCgroups(t)
			n.RemoveClaim(c)
		}, stays: "no pod has a cgroup"},
}

// TestHeld: a claim whose Unprepare never came lets go of its HCA only when the API server says that it is not
// allocated these devices, the kubelet lists no pod with it, and no pod that was given it has a cgroup. In doubt it
// stays. The sweep finds it, and so does the Prepare of a claim that was given the HCA since.
func TestHeld(t *testing.T) {
	for _, tc := range helds {
		t.Run(tc.name, func(t *testing.T) {
			_, reports := withReports(t)
			s := serve(t, "hgx-h100", reports)
			c, next := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA), drivertest.Claim(2, dev0)
			s.node.AddClaim(c, next)
			ids := s.prepares(c)
			tc.becomes(t, s.node, c, ids)
			if tc.stays == "" {
				s.prepares(next)
				s.hasFiles(next)
				test.SliceContains(t, s.Notes(), "Forgotten team-a/claim-1", test.Sprint("the status page"))
				s.unprepares(next)
				return
			}
			patience := func() context.Context {
				if !tc.away {
					return s.ctx
				}
				ctx, _ := s.answers(apifault.Status(http.StatusInternalServerError))
				return ctx
			}
			_, err := s.prepareOf(patience(), next)
			s.saysAll(err, tc.stays, "team-a/claim-1", string(c.UID))
			s.hasFiles(c)
			test.NoError(t, drivertest.CheckSpecs(s.node.CDIDir, ids...))
			s.restart()
			_ = s.Orphans.sweep(patience()) // an error is a reason to stay
			test.Eq(t, !tc.quiet, s.has(c, event.StillHeld, tc.stays), test.Sprintf("somebody is told, of %v", s.Events()))
			test.True(t, !tc.quiet || !s.has(c, event.StillHeld, ""), test.Sprint("somebody is told of a claim in use"))
			s.hasFiles(c)
		})
	}
}

// TestHeldSwept: nobody asks for the HCA, and the sweep lets go of it all the same.
func TestHeldSwept(t *testing.T) {
	for _, tc := range helds {
		if tc.stays != "" {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			_, reports := withReports(t)
			s := serve(t, "hgx-h100", reports)
			c := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA)
			s.node.AddClaim(c)
			tc.becomes(t, s.node, c, s.prepares(c))
			s.restart()
			test.NoError(t, s.Orphans.sweep(s.ctx))
			s.hasFiles()
		})
	}
}

// TestMadeAnewUnderItsName: the kubelet has lost what it knew, and asks for another claim of a name. It lists the new
// claim's pod under that name, without devices as it has none yet; that is no user of the old claim.
func TestMadeAnewUnderItsName(t *testing.T) {
	_, reports := withReports(t)
	s := serve(t, "hgx-h100", reports)
	c := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA)
	s.node.AddClaim(c)
	s.prepares(c)

	next := drivertest.ReservedFor(drivertest.MadeAnew(c, 9), podB)
	s.node.AddClaim(next)
	s.node.AddUsingPod("next", next)
	s.node.AddPodCgroup(t, podB) // of a pod that starts

	s.node.AddPodCgroup(t, podA) // the old pod was deleted by force, and runs
	s.refuses(next, "in use by claim team-a/claim-1 ("+string(c.UID)+")", "pod "+podA, "crictl")
	s.hasFiles(c)

	s.node.RemovePodCgroup(t, podA)
	ids := s.prepares(next)
	s.hasFiles(next)
	test.SliceEqOp(t, ids, s.prepares(next), test.Sprint("another answer"))
}

// TestAllocatedAnew: a claim that was deallocated and allocated other devices of the node takes the place of its
// earlier allocation, but not while a pod of that runs.
func TestAllocatedAnew(t *testing.T) {
	_, reports := withReports(t)
	s := serve(t, "hgx-h100", reports)
	c := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA)
	other := drivertest.Claim(2, dev0)
	s.node.AddClaim(c, other)
	s.prepares(c)

	next := drivertest.ReservedFor(drivertest.Claim(1, dev1), podB)
	s.node.AddClaim(next)
	s.node.AddUsingPod("next", next, "rdma.dev/claim="+dev0+".r0."+string(c.UID)) // what the kubelet had of it
	s.node.AddPodCgroup(t, podA)
	s.node.AddPodCgroup(t, podB)
	s.refuses(next, "pod "+podA, dev0, "an earlier allocation")
	s.refuses(other, "claim team-a/claim-1 ("+string(c.UID)+")")
	s.hasFiles(c)

	s.node.RemovePodCgroup(t, podA)
	s.prepares(next)
	s.prepares(other)
	s.hasFiles(c, other)
}

// TestLaterPodHolds: the hook's reports make known which pods a claim was given to after it was prepared. One that was
// deleted by force and runs holds the HCA, also for the next driver; a report that nobody has read yet does, too.
func TestLaterPodHolds(t *testing.T) {
	dir, reports := withReports(t)
	s := serve(t, "hgx-h100", reports)
	c, next := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA), drivertest.Claim(2, dev0)
	s.node.AddClaim(c, next)
	s.prepares(c)
	s.node.AddPodCgroup(t, podB, containerB)
	report := record.Report{ReportVersion: record.Version, ID: containerB, Claim: string(c.UID), Outcome: record.Raised,
		PodUID: podA} // not to be believed
	must.NoError(t, hook.WriteReport(dir, report))
	logReports(klog.FromContext(s.ctx), dir, s.Reservations.recordPods(s.ctx))
	test.SliceEmpty(t, drivertest.Files(t, dir), test.Sprint("reports that are not read"))
	data, err := os.ReadFile(filepath.Join(s.node.RecordDir(), string(c.UID)+".json"))
	test.True(t, err == nil && strings.Contains(string(data), podB),
		test.Sprintf("the record does not have pod %s: %s, %v", podB, data, err))
	s.node.RemoveClaim(c)
	s.refuses(next, "pod "+podB+" got it and still runs")
	s.restart()
	s.refuses(next, "pod "+podB+" got it and still runs")
	s.node.RemovePodCgroup(t, podB)
	s.prepares(next)
}

// TestReportsOfClaims: reports of containers of claims are passed on, and others are not.
func TestReportsOfClaims(t *testing.T) {
	dir, reports := withReports(t)
	s := serve(t, "hgx-h100", reports)
	c := drivertest.Claim(1, dev0)
	s.prepares(c)
	for id, claim := range map[string]string{"mine": string(c.UID), "other": "no-claim"} {
		must.NoError(t, hook.WriteReport(dir, record.Report{ReportVersion: record.Version, ID: id, Claim: claim}))
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel() // after the first look
	s.Reservations.FollowHook(ctx)
	test.SliceEqOp(t, []string{"mine of team-a/claim-1"}, s.hooked, test.Sprint("passed on"))
}

// TestWithoutHook: without the hook nobody knows which pods came later to a claim that pods may share. One that was
// made for a pod lets go.
func TestWithoutHook(t *testing.T) {
	s := serve(t, "hgx-h100", func(c *Config) { c.Hook.Path = "" })
	c, own := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA), drivertest.ForPod(drivertest.Claim(2, dev1), podB)
	next, after := drivertest.Claim(3, dev0), drivertest.Claim(4, dev1)
	s.node.AddClaim(c, own, next, after)
	s.prepares(c)
	s.prepares(own)
	s.node.RemoveClaim(c)
	s.node.RemoveClaim(own)
	s.refuses(next, "which pods it was given to", "hook", string(c.UID)+".json")
	s.node.AddPodCgroup(t, podB)
	s.refuses(after, "pod "+podB)
	s.node.RemovePodCgroup(t, podB)
	s.prepares(after)
}
