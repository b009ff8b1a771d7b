package dra_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// TestPodGroupFollowed: the pods of a PodGroup have the HCA of its claim, one at a time, also with a driver that comes
// back. A pod that the kubelet lists without the claim has nothing of it.
func TestPodGroupFollowed(t *testing.T) {
	n, k, d := follow(t, make(chan watch.Signal), withEvents)
	drivertest.WaitTaints(t, n, onlyHCA, "")
	a, b, outside := podNamed("a"), podNamed("b"), podNamed("outside")
	claim := drivertest.ForPodGroup(drivertest.Claim(1, onlyHCA), "workers")
	n.AddClaim(claim)
	ids := prepare(t, n, claim)
	n.AddPod(outside.Name)
	d.starts(outside)
	test.True(t, k.Moves() == 0 && len(d.Pending()) == 0,
		test.Sprintf("%d moves for a pod that is not in the group, pending are %v", k.Moves(), d.Pending()))
	for _, pod := range []nri.Pod{a, b} {
		n.AddUsingPod(pod.Name, claim, ids...)
	}
	d.starts(a)
	k.WaitIn(a.Netns) // the kubelet may answer later than a start waits
	d.waits(b, "RDMA device mlx5_0 is in pod team-a/a")
	d.stop()
	d = startHearing(t, n, make(chan watch.Signal), moving(n, k), quick, withEvents)
	d.Sandboxes().Running(t.Context(), []nri.Pod{a, outside})
	k.IsIn(a.Netns)
	d.waits(b, "RDMA device mlx5_0 is in pod team-a/a")

	claim.Status.ReservedFor = nil // the PodGroup is deleted, and its pods still run
	n.AddClaim(claim)
	d.starts(outside)
	k.IsIn(a.Netns)
	d.Sandboxes().Stopped(t.Context(), a)
	k.IsIn("")
	unprepare(t, n, claim)
	wantFiles(t, n)
}

// TestPodGroupOtherClaim: the kubelet lists claims by name. A pod with an earlier claim of that name has nothing of the
// present one.
func TestPodGroupOtherClaim(t *testing.T) {
	n, k, d := follow(t, make(chan watch.Signal))
	drivertest.WaitTaints(t, n, onlyHCA, "")
	earlier := drivertest.ForPodGroup(drivertest.Claim(1, onlyHCA), "workers")
	n.AddClaim(earlier)
	old := prepare(t, n, earlier)
	unprepare(t, n, earlier)
	claim := drivertest.ForPodGroup(drivertest.MadeAnew(earlier, 2), "workers")
	n.AddClaim(claim)
	ids := prepare(t, n, claim)
	pod, unprepared, next := podNamed("old"), podNamed("unprepared"), podNamed("next")
	n.AddUsingPod(pod.Name, earlier, old...)
	n.AddUsingPod(unprepared.Name, claim)
	n.AddUsingPod(next.Name, claim, ids...)
	d.starts(pod)
	d.starts(unprepared)
	test.LessEq(t, 0, k.Moves(), test.Sprintf("%d moves for pods without a device of the claim", k.Moves()))
	d.starts(next)
	k.WaitIn(next.Netns)
}

// TestPodGroupInterfaces: each pod of the group has an interface of its own, with a name that no other claim of the pod
// has, whichever of the claims is prepared first.
func TestPodGroupInterfaces(t *testing.T) {
	for name, groupFirst := range map[string]bool{"group first": true, "group last": false} {
		t.Run(name, func(t *testing.T) {
			_, attach := attaching(t, "")
			n := drivertest.NewNode(t, "roce-sriov")
			d := start(t, n, attach)
			a, inA := inside(t, "a")
			b, inB := inside(t, "b")
			group := drivertest.WithNetwork(drivertest.ForPodGroup(drivertest.Claim(1, vf), "workers"), `{"mode": "macvlan"}`)
			own := ofPod(drivertest.WithNetwork(reserved(2, a, "pci-0000-3b-00-0"), `{"mode": "macvlan"}`), a)
			n.AddClaim(group)
			n.AddClaim(own)
			n.AddPod(a.Name, group, own) // as while the kubelet prepares them: without CDI devices
			var ids []string
			if groupFirst {
				ids = prepare(t, n, group)
				prepare(t, n, own)
			} else {
				prepare(t, n, own)
				ids = prepare(t, n, group)
			}
			n.SetPods(nil)
			n.AddUsingPod(a.Name, group, ids...)
			n.AddUsingPod(b.Name, group, ids...)
			d.starts(a)
			d.starts(b)
			inA.IP("link show dev rdma0")
			inA.IP("link show dev rdma1")
			shared := "rdma1"
			if groupFirst {
				shared = "rdma0"
			}
			inB.IP("link show dev " + shared)
			for _, pod := range []nri.Pod{a, b} {
				d.Sandboxes().Stopped(t.Context(), pod)
			}
			noRecords(t, n)
		})
	}
}

// TestPodGroupNameUnknown: the interface of a claim of a PodGroup gets no name while the kubelet does not say what else
// the pods of the group have.
func TestPodGroupNameUnknown(t *testing.T) {
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	start(t, n, attach)
	claim := drivertest.WithNetwork(drivertest.ForPodGroup(drivertest.Claim(1, vf), "workers"), `{"mode": "macvlan"}`)
	n.AddClaim(claim)
	n.SetPods(errors.New("too many requests"))
	refused(t, n, claim, "name its network interfaces", "too many requests")
	n.SetPods(nil, claim)
	prepare(t, n, claim)
}

// TestPodGroupCost: the kubelet and the API server are asked once when a pod starts that may be in the group, and not
// again. Without a claim of a PodGroup the kubelet is not asked.
func TestPodGroupCost(t *testing.T) {
	n, _, d := follow(t, make(chan watch.Signal))
	drivertest.WaitTaints(t, n, onlyHCA, "")
	a := podNamed("a")
	costs := func(what string, pod nri.Pod, requests, lists int) {
		t.Helper()
		before, listed := n.Count(drivertest.GetClaim), n.PodLists()
		d.starts(pod)
		got, asked := n.Count(drivertest.GetClaim)-before, n.PodLists()-listed
		test.True(t, got == requests && asked == lists,
			test.Sprintf("%s: %d requests and %d lists, want %d and %d", what, got, asked, requests, lists))
	}
	for i := range 3 {
		n.AddPod(podNamed(fmt.Sprint("other-", i)).Name)
	}
	shared := reservedOn(n, 1, podNamed("first"))
	prepare(t, n, shared)
	costs("a claim of pods", podNamed("other-0"), 1, 0)
	unprepare(t, n, shared)
	group := drivertest.ForPodGroup(drivertest.Claim(2, onlyHCA), "workers")
	n.AddClaim(group)
	listed := n.PodLists()
	ids := prepare(t, n, group)
	test.Eq(t, 0, n.PodLists()-listed, test.Sprint("prepare asked the kubelet"))
	n.AddUsingPod(a.Name, group, ids...)
	costs("a pod of the group", a, 1, 1)
	costs("it starts again", a, 0, 0)
	costs("a pod that is not in it", podNamed("other-1"), 1, 1)
	elsewhere := podNamed("elsewhere")
	elsewhere.Namespace = "team-b"
	costs("a pod of another namespace", elsewhere, 0, 0)
}
