package dra_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/nriruntime"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
)

// Two pods, and a container of the second.
const (
	podA       = "aaaaaaaa-0000-4000-8000-000000000000"
	podB       = "bbbbbbbb-0000-4000-8000-000000000000"
	containerB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// withReports has the hook leave reports.
func withReports(t *testing.T) (dir string, option func(*dra.Config)) {
	dir = drivertest.TempDir(t)
	return dir, func(c *dra.Config) { c.Hook.ReportDir = dir }
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
}

func deallocated(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) {
	n.AddClaim(drivertest.Deallocated(c))
}

var helds = []held{
	{"it is in use", func(*testing.T, *drivertest.Node, *resourceapi.ResourceClaim, []string) {}, "two claims were given one device", true},
	{"it is gone", func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) { n.RemoveClaim(c) }, "", false},
	{"it was deallocated", deallocated, "", false},
	{"it is allocated on another node", func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) {
		n.AddClaim(drivertest.Elsewhere(c))
	}, "", false},
	{"it has another device of the node now", func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) {
		c = c.DeepCopy()
		c.Status.Allocation.Devices.Results[0].Device = dev1
		n.AddClaim(c)
	}, "", false},
	{"it was made anew under its name", func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, _ []string) {
		n.AddClaim(drivertest.MadeAnew(c, 9))
	}, "", false},
	{"it was made anew, and a pod uses the new one", func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
		next := drivertest.MadeAnew(c, 9)
		n.AddClaim(next)
		n.AddUsingPod("next", next, strings.ReplaceAll(ids[0], string(c.UID), string(next.UID)))
	}, "", false},
	{"the kubelet lists a pod with it", func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
		n.AddUsingPod("job-0", c, ids...)
		deallocated(nil, n, c, ids)
	}, "the kubelet still lists pod team-a/job-0 with it", true},
	{"the kubelet lists a pod with it, and not by device", func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
		n.AddUsingPod("job-0", c)
		deallocated(nil, n, c, ids)
	}, "the kubelet still lists pod team-a/job-0 with it", true},
	{"the kubelet fails", func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
		deallocated(nil, n, c, ids)
		n.SetPods(errors.New("the kubelet is busy"))
	}, "the kubelet is busy", true},
	{"the API server fails", func(_ *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
		deallocated(nil, n, c, ids)
		n.Fail(drivertest.GetClaimOf(c), 500)
	}, "look for claim team-a/claim-1", true},
	{"its pod was deleted by force and runs", func(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
		n.AddPodCgroup(t, podA)
		n.RemoveClaim(c)
	}, "pod " + podA + " got it and still runs", false},
	{"no cgroup of a pod can be seen", func(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, ids []string) {
		n.HideCgroups(t)
		n.RemoveClaim(c)
	}, "no pod has a cgroup", false},
}

// TestHeld: a claim whose Unprepare never came lets go of its HCA only when the API server says that it is not
// allocated these devices, the kubelet lists no pod with it, and no pod that was given it has a cgroup. In doubt it
// stays. The sweep finds it, and so does the Prepare of a claim that was given the HCA since.
func TestHeld(t *testing.T) {
	t.Parallel()
	for _, tc := range helds {
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, "hgx-h100")
			_, reports := withReports(t)
			events := func(c *dra.Config) { c.ClaimEvents = true }
			d := start(t, n, reports, events)
			c, next := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA), drivertest.Claim(2, dev0)
			n.AddClaim(c, next)
			ids := prepare(t, n, c)
			tc.becomes(t, n, c, ids)
			if tc.stays == "" {
				prepare(t, n, next)
				wantFiles(t, n, next)
				d.says("Forgetting a claim")
				unprepare(t, n, next)
				return
			}
			refused(t, n, next, tc.stays, "team-a/claim-1", string(c.UID))
			wantFiles(t, n, c)
			test.NoError(t, drivertest.CheckSpecs(n.CDIDir, ids...))
			d.stop()
			d = start(t, n, reports, events) // which sweeps at once
			if !tc.quiet {
				drivertest.Eventually(t, func() error { return told(n, c, "RDMAStillHeld", tc.stays) })
			}
			d.stop() // waits for the sweep
			wantFiles(t, n, c)
			err := told(n, c, "RDMAStillHeld", "")
			test.True(t, !tc.quiet || err != nil, test.Sprint("somebody was told of a claim that is in use"))
		})
	}
}

// TestHeldSwept: nobody asks for the HCA, and the sweep lets go of it all the same.
func TestHeldSwept(t *testing.T) {
	t.Parallel()
	for _, tc := range helds {
		if tc.stays != "" {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, "hgx-h100")
			_, reports := withReports(t)
			d := start(t, n, reports)
			c := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA)
			n.AddClaim(c)
			ids := prepare(t, n, c)
			d.stop()
			tc.becomes(t, n, c, ids)
			d = start(t, n, reports)
			d.says("Forgetting a claim")
			d.stop()
			wantFiles(t, n)
		})
	}
}

// told returns an error unless an event of the claim has a reason and a text.
func told(n *drivertest.Node, c *resourceapi.ResourceClaim, reason, text string) error {
	for _, e := range n.Events() {
		if e.Reason == reason && e.InvolvedObject.UID == c.UID && strings.Contains(e.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("claim %s has no event %s with %q", c.Name, reason, text)
}

// TestMadeAnewUnderItsName: the kubelet has lost what it knew, and asks for another claim of a name. It lists the new
// claim's pod under that name, without devices as it has none yet; that is no user of the old claim.
func TestMadeAnewUnderItsName(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	_, reports := withReports(t)
	start(t, n, reports)
	c := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA)
	n.AddClaim(c)
	prepare(t, n, c)

	next := drivertest.ReservedFor(drivertest.MadeAnew(c, 9), podB)
	n.AddClaim(next)
	n.AddUsingPod("next", next)
	n.AddPodCgroup(t, podB) // of a pod that starts

	n.AddPodCgroup(t, podA) // the old pod was deleted by force, and runs
	refused(t, n, next, "in use by claim team-a/claim-1 ("+string(c.UID)+")", "pod "+podA, "crictl")
	wantFiles(t, n, c)

	n.RemovePodCgroup(t, podA)
	ids := prepare(t, n, next)
	wantFiles(t, n, next)
	test.SliceEqOp(t, ids, prepare(t, n, next), test.Sprint("another answer"))
}

// TestAllocatedAnew: a claim that was deallocated and allocated other devices of the node takes the place of its
// earlier allocation, but not while a pod of that runs.
func TestAllocatedAnew(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	_, reports := withReports(t)
	start(t, n, reports)
	c := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA)
	other := drivertest.Claim(2, dev0)
	n.AddClaim(c, other)
	prepare(t, n, c)

	next := drivertest.ReservedFor(drivertest.Claim(1, dev1), podB)
	n.AddClaim(next)
	n.AddUsingPod("next", next, "rdma.dev/claim="+dev0+".r0."+string(c.UID)) // what the kubelet had of it
	n.AddPodCgroup(t, podA)
	n.AddPodCgroup(t, podB)
	refused(t, n, next, "pod "+podA, dev0, "an earlier allocation")
	refused(t, n, other, "claim team-a/claim-1 ("+string(c.UID)+")")
	wantFiles(t, n, c)

	n.RemovePodCgroup(t, podA)
	prepare(t, n, next)
	prepare(t, n, other)
	wantFiles(t, n, c, other)
}

// TestLaterPodHolds: the hook's reports make known which pods a claim was given to after it was prepared. One that was
// deleted by force and runs holds the HCA, also for the next driver; a report that nobody has read yet does, too.
func TestLaterPodHolds(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	dir, reports := withReports(t)
	d := start(t, n, reports)
	c, next := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA), drivertest.Claim(2, dev0)
	n.AddClaim(c, next)
	prepare(t, n, c)
	n.AddPodCgroup(t, podB, containerB)
	report := record.Report{ReportVersion: record.Version, ID: containerB, Claim: string(c.UID), Outcome: record.Raised,
		PodUID: podA} // not to be believed
	must.NoError(t, hook.WriteReport(dir, report))
	drivertest.Eventually(t, func() error {
		if left := drivertest.Files(t, dir); len(left) > 0 {
			return fmt.Errorf("reports %v are not read", left)
		}
		data, err := os.ReadFile(filepath.Join(n.RecordDir(), string(c.UID)+".json"))
		if err == nil && !strings.Contains(string(data), podB) {
			err = fmt.Errorf("the record does not have pod %s: %s", podB, data)
		}
		return err
	})
	n.RemoveClaim(c)
	refused(t, n, next, "pod "+podB+" got it and still runs")
	d.stop()
	start(t, n, reports)
	refused(t, n, next, "pod "+podB+" got it and still runs")
	n.RemovePodCgroup(t, podB)
	prepare(t, n, next)
}

// TestWithoutHook: without the hook nobody knows which pods came later to a claim that pods may share. One that was
// made for a pod lets go.
func TestWithoutHook(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n, func(c *dra.Config) { c.Hook.Path = "" })
	c, own := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA), drivertest.ForPod(drivertest.Claim(2, dev1), podB)
	next, after := drivertest.Claim(3, dev0), drivertest.Claim(4, dev1)
	n.AddClaim(c, own, next, after)
	prepare(t, n, c)
	prepare(t, n, own)
	n.RemoveClaim(c)
	n.RemoveClaim(own)
	refused(t, n, next, "which pods it was given to", "hook", string(c.UID)+".json")
	n.AddPodCgroup(t, podB)
	refused(t, n, after, "pod "+podB)
	n.RemovePodCgroup(t, podB)
	prepare(t, n, after)
}

// TestReservedPodsStay: when the API server says for which pods a claim is reserved, one that was deleted by force and
// runs stays known: it holds the HCA. One that has ended does not.
func TestReservedPodsStay(t *testing.T) {
	n, _, d := follow(t, make(chan watch.Signal))
	waitTaints(t, n, onlyHCA, "")
	a := nri.Pod{UID: podA, Namespace: "team-a", Name: "a", Netns: "/run/netns/a"}
	b := nri.Pod{UID: podB, Namespace: "team-a", Name: "b", Netns: "/run/netns/b"}
	c := reservedOn(n, 1, a)
	prepare(t, n, c)
	record := func() string {
		data, err := os.ReadFile(filepath.Join(n.RecordDir(), string(c.UID)+".json"))
		must.NoError(t, err)
		return string(data)
	}
	n.AddPodCgroup(t, podA)
	reserve(n, c, b)
	d.starts(b)
	text := record()
	test.True(t, strings.Contains(text, podA) && strings.Contains(text, podB),
		test.Sprintf("the record has not both pods: %s", text))
	d.Sandboxes().Stopped(t.Context(), b)
	n.RemovePodCgroup(t, podA)
	third := nri.Pod{UID: "cccccccc" + podA[8:], Namespace: "team-a", Name: "c", Netns: "/run/netns/c"}
	reserve(n, c, b, third)
	d.starts(third)
	test.StrNotContains(t, record(), podA, test.Sprint("the record has a pod that has ended"))
}

// TestHeldWithoutCgroups: where no cgroup of a pod can be seen, the container runtime's list decides. A list without the
// driver's own pod is not complete: the runtime may be starting.
func TestHeldWithoutCgroups(t *testing.T) {
	runtime := nriruntime.New(t)
	runtime.Up()
	own := nri.Pod{Namespace: "kube-system", Name: "driver", UID: "dddddddd-0000-4000-8000-000000000000"}
	n := drivertest.NewNode(t, "hgx-h100")
	_, reports := withReports(t)
	d := start(t, n, reports, func(c *dra.Config) { c.NRISocket, c.PodUID = runtime.Socket, types.UID(own.UID) })
	d.says("Connected to NRI")
	c, next := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA), drivertest.Claim(2, dev0)
	n.AddClaim(c, next)
	prepare(t, n, c)
	n.HideCgroups(t)
	n.RemoveClaim(c)
	refused(t, n, next, "no pod has a cgroup", "team-a/claim-1")
	wantFiles(t, n, c)
	must.NoError(t, runtime.Run(t.Context(), own))
	_, err := runtime.Create(t.Context(), own, "driver")
	must.NoError(t, err)
	prepare(t, n, next)
	wantFiles(t, n, next)
}
