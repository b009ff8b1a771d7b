package pods

import (
	"context"
	"errors"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// TestFollowForNobody: the runtime may give up on a request whose devices have moved already, and start the containers.
// The hook has let them start with the devices, so the driver does not take the devices back.
func TestFollowForNobody(t *testing.T) {
	s := serve(t, "exclusive-netns", exclusive)
	pod := podNamed("a")
	s.prepares(t, claimOf(1, pod, onlyHCA))
	ctx, giveUp := context.WithCancel(s.ctx)
	s.mover.AfterIn = giveUp
	renewed := 0
	s.renew = func(plans []*plan.Plan) { renewed += len(plans) }
	test.NoError(t, s.Started(ctx, pod))
	_, unlock, err := s.lockPod(s.ctx, pod) // when the driver has finished
	must.NoError(t, err)
	unlock()
	s.mover.IsIn(pod.Netns)
	test.Eq(t, 1, s.mover.Moves(), test.Sprint("moves"))
	test.Eq(t, 1, renewed, test.Sprint("specs with the new node: the driver goes on without the runtime"))
}

// TestFollowFails: a pod that cannot have its devices does not start, and nothing was moved. A pod in the host's
// network has the host's devices.
func TestFollowFails(t *testing.T) {
	s := serve(t, "exclusive-netns", exclusive)
	pod := podNamed("a")
	s.prepares(t, claimOf(1, pod, onlyHCA))
	s.mover.Fail(errors.New("the kernel is busy"))
	s.waits(pod, "claim team-a/claim-1: the kernel is busy")
	host := pod
	host.Netns = ""
	s.starts(host)
	test.Eq(t, 0, s.mover.Moves(), test.Sprint("moves for a pod with the host's network"))
}

// TestInterfacesExclusive: the RDMA device goes into the pod before its interface. It comes back before it, also from
// a pod that cannot have all.
func TestInterfacesExclusive(t *testing.T) {
	s := serve(t, "exclusive-netns", exclusive, attaching(onlyNetdev))
	pod, ns := inside(t, "a")
	s.prepares(t, drivertest.WithNetwork(claimOf(1, pod, onlyHCA), `{"mode": "move", "addresses": ["10.9.0.2/24"], `+
		`"routes": [{"destination": "10.10.0.0/16", "gateway": "10.9.0.1"}]}`))
	came := 0
	s.mover.BeforeOut = func() {
		came++
		_, err := s.net.Try("link show dev " + onlyNetdev)
		test.Error(t, err, test.Sprint("the interface has come back before the RDMA device"))
	}
	back := func(moves int) {
		t.Helper()
		s.net.IP("link show dev " + onlyNetdev)
		s.mover.IsIn("")
		test.Eq(t, moves, came, test.Sprint("how often the RDMA device came back"))
		s.noRecords()
	}
	ns.Wire("other")
	ns.IP("route add 10.10.0.0/16 dev other")
	s.waits(pod, "the pod has a route there already")
	back(1)
	ns.IP("link del other")
	s.starts(pod)
	ns.IP("link show dev rdma0")
	s.mover.IsIn(pod.Netns)
	s.Stopped(s.ctx, pod)
	back(2)
}

// TestOnHostUnsure: as long as nobody says whether a pod with the host's network shares a claim, the HCA stays.
func TestOnHostUnsure(t *testing.T) {
	s := serve(t, "exclusive-netns", exclusive)
	h, b := podNamed("h"), podNamed("b")
	h.Netns = ""
	s.prepares(t, claimOf(1, b, onlyHCA))
	s.isSilent(errors.New("service unavailable"))
	s.starts(h)
	s.waits(b, "RDMA device mlx5_0 may be used on the host by pod team-a/h (uid-h)", "the driver asks again")
	s.isSilent(nil)
	s.starts(b) // it is not for the other one
	s.mover.IsIn(b.Netns)
}
