package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/podnettest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// TestLaterPodFollowed: an HCA is in one pod at a time. A pod that the claim is reserved for later hears which one has
// it, and gets it when that has ended.
func TestLaterPodFollowed(t *testing.T) {
	for name, restart := range map[string]bool{"first pod deleted": false, "driver restarted": true} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "exclusive-netns", exclusive)
			a, b := podNamed("a"), podNamed("b")
			c := claimOf(1, a, onlyHCA)
			s.prepares(t, c)
			s.starts(a)
			s.reserves(c, b) // the first one is gone from the API server before its sandbox is
			if restart {
				s.reserves(c, a, b)
				s.restart()
				s.Running(s.ctx, []nri.Pod{a})
			}
			s.waits(b, "RDMA device mlx5_0 is in pod team-a/a", "it comes back when that pod's sandbox is gone")
			s.Stopped(s.ctx, a)
			s.mover.IsIn("")
			moves, renewed := s.mover.Moves(), 0
			s.renew = func([]*plan.Plan) { renewed = s.mover.Moves() }
			s.starts(b)
			s.mover.IsIn(b.Netns)
			test.Eq(t, moves+1, renewed, test.Sprint("the specs are renewed after the move number"))
		})
	}
}

// TestLaterPodRunning: nobody was there when a later pod started. It gets the HCA when the pod that has it ends, though
// the runtime tells of its start no more.
func TestLaterPodRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "exclusive-netns", exclusive)
		s.runs(t)
		a, b := podNamed("a"), podNamed("b")
		c := claimOf(1, a, onlyHCA)
		s.prepares(t, c)
		s.starts(a)
		s.reserves(c, a, b)
		s.Running(s.ctx, []nri.Pod{a, b, podNamed("other")})
		test.StrContains(t, s.log.String(), "RDMA device mlx5_0 is in pod team-a/a", test.Sprint("the log lacks"))
		test.SliceEqOp(t, []nri.Pod{b}, s.Pending(), test.Sprint("pending"))
		s.Stopped(s.ctx, a)
		s.mover.WaitIn(b.Netns)
	})
}

// TestLaterPodUnsure: while the API server does not say for whom claims are, pods start: most have none. One that has
// does not run without its HCA, and gets it when the server is back.
func TestLaterPodUnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "exclusive-netns", exclusive)
		s.runs(t)
		a, b, other := podNamed("a"), podNamed("b"), podNamed("other")
		c := claimOf(1, a, onlyHCA)
		s.prepares(t, c)
		s.reserves(c, b)
		s.isSilent(errors.New("service unavailable"))
		s.starts(b)
		s.starts(other)
		late := s.Pending()
		test.True(t, s.mover.Moves() == 0 && len(late) == 2,
			test.Sprintf("%d moves, and pending are %v", s.mover.Moves(), late))
		s.isSilent(nil)
		s.mover.WaitIn(b.Netns)
		eventually(t, "no pod is pending", func() bool { return len(s.Pending()) == 0 })
	})
}

// TestLaterPodSlow: a pod's start waits for a slow API server for at most half of the runtime's time. The pod gets its
// HCA from a retry, which waits longer.
func TestLaterPodSlow(t *testing.T) {
	for name, tc := range map[string]struct{ first, later time.Duration }{
		"slow once":   {time.Hour, 0},
		"always slow": {3 * time.Second, 3 * time.Second}, // more than the runtime's time
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, "exclusive-netns", exclusive)
				s.runs(t)
				a, b := podNamed("a"), podNamed("b")
				c := claimOf(1, a, onlyHCA)
				s.prepares(t, c)
				s.reserves(c, b)
				s.isSlow(tc.first)
				began := time.Now()
				ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second) // the runtime's
				defer cancel()
				must.NoError(t, s.Started(ctx, b))
				test.LessEq(t, time.Second, time.Since(began), test.Sprint("the pod's start took"))
				test.Eq(t, 0, s.mover.Moves(), test.Sprint("moves before the API server has answered"))
				s.isSlow(tc.later)
				s.mover.WaitIn(b.Netns)
			})
		})
	}
}

// TestLaterPodInterface: each pod of a claim has an interface of its own, for any claim and whenever the pod came.
func TestLaterPodInterface(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		known  bool // when the claim is prepared
	}{
		"known":               {`{"mode": "macvlan"}`, true},
		"later":               {`{"mode": "macvlan"}`, false},
		"known, a lease each": {`{"mode": "macvlan", "ipam": "roce"}`, true},
		"later, a lease each": {`{"mode": "macvlan", "ipam": "roce"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			config := `{"type": "host-local", "dataDir": "` + t.TempDir() + `", "ranges": [[{"subnet": "10.78.0.0/24"}]]}`
			s := serve(t, "roce-sriov", attaching(vfNetdev))
			if strings.Contains(c.config, "ipam") {
				leasing(podnettest.Plugins(t), config)(s)
				s.restart()
			}
			a, inA := inside(t, "a")
			b, inB := inside(t, "b")
			claim := drivertest.WithNetwork(claimOf(1, a, vf), c.config)
			if c.known {
				claim = reserved(claim, b)
			}
			s.prepares(t, claim)
			s.starts(a)
			s.reserves(claim, a, b)
			s.starts(b)
			said := map[string]bool{}
			for _, ns := range []*podnettest.Namespace{inA, inB} {
				fields := strings.Fields(ns.IP("-br -4 addr show dev rdma0"))
				mac := strings.Fields(ns.IP("-br link show dev rdma0"))[2]
				said[mac] = true
				if strings.Contains(c.config, "ipam") {
					must.GreaterEq(t, 3, len(fields), must.Sprintf("the interface has no address: %v", fields))
					said[fields[2]] = true
				}
			}
			test.Eq(t, 2*(1+strings.Count(c.config, "ipam")), len(said),
				test.Sprintf("the two pods have %v", said))
			s.Stopped(s.ctx, a)
			inB.IP("link show dev rdma0")
			s.Stopped(s.ctx, b)
			s.noRecords()
		})
	}
}

// TestLaterPodWaits: what only one pod can have at a time is that of the first, whether the others were known when the
// claim was prepared or not, and then of the next.
func TestLaterPodWaits(t *testing.T) {
	for name, c := range map[string]struct{ config, says string }{
		"move":      {`{"mode": "move"}`, `network interface "ens1f0v0" of the host is in pod team-a/a`},
		"addresses": {`{"mode": "macvlan", "addresses": ["10.9.0.2/24"]}`, `its addresses 10.9.0.2/24 are in pod team-a/a`},
	} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, known %t", name, known), func(t *testing.T) {
				s := serve(t, "roce-sriov", attaching(vfNetdev))
				a, _ := inside(t, "a")
				b, inB := inside(t, "b")
				claim := drivertest.WithNetwork(claimOf(1, a, vf), c.config)
				if known {
					claim = reserved(claim, b)
				}
				s.prepares(t, claim)
				s.starts(a)
				s.reserves(claim, a, b)
				s.waits(b, c.says, "that pod's sandbox is gone")
				s.Stopped(s.ctx, a)
				s.reserves(claim, b)
				s.starts(b)
				inB.IP("link show dev rdma0")
				s.Stopped(s.ctx, b)
				s.noRecords()
			})
		}
	}
}

// TestLaterPodExclusive: HCA and interface of a claim go to the next pod together.
func TestLaterPodExclusive(t *testing.T) {
	s := serve(t, "exclusive-netns", exclusive, attaching(onlyNetdev))
	a, _ := inside(t, "a")
	b, inB := inside(t, "b")
	c := drivertest.WithNetwork(claimOf(1, a, onlyHCA), `{"mode": "move", "addresses": ["10.9.0.2/24"]}`)
	s.prepares(t, c)
	s.starts(a)
	s.reserves(c, a, b)
	s.waits(b, "RDMA device mlx5_0 is in pod team-a/a")
	s.Stopped(s.ctx, a)
	s.starts(b)
	inB.IP("link show dev rdma0")
	s.mover.IsIn(b.Netns)
}
