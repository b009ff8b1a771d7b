package claims

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// learns asks which claims are reserved for a pod, and waits for the answer for at most this time.
func (s *served) learns(pod Pod, atMost time.Duration) ([]Pod, error) {
	ctx, cancel := context.WithTimeout(s.ctx, atMost)
	defer cancel()
	return s.Reservations.Learn(ctx, []Pod{pod}, func(*plan.Plan) bool { return true })
}

// TestReservedPodsStay: when the API server says for which pods a claim is reserved, one that was deleted by force and
// runs stays known: it holds the HCA. One that has ended does not.
func TestReservedPodsStay(t *testing.T) {
	const podA, podB = "aaaaaaaa-0000-4000-8000-000000000000", "bbbbbbbb-0000-4000-8000-000000000000"
	const podC = "cccccccc-0000-4000-8000-000000000000"
	s := serve(t, "hgx-h100")
	c := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA)
	s.node.AddClaim(c)
	s.prepares(c)
	s.node.AddPodCgroup(t, podA)
	// pods returns the recorded pods after the claim was reserved for others, and one of them has started.
	pods := func(started string, others ...string) []types.UID {
		t.Helper()
		now := drivertest.Claim(1, dev0)
		for _, pod := range append(others, started) {
			now = drivertest.ReservedFor(now, pod)
		}
		s.node.AddClaim(now)
		_, err := s.learns(Pod{Namespace: "team-a", Name: started, UID: types.UID(started)}, Patience)
		must.NoError(t, err)
		p, err := s.cfg.Store.Get(c.UID)
		must.NoError(t, err)
		return p.Pods
	}
	test.SliceContainsAll(t, pods(podB), []types.UID{podA, podB})
	s.node.RemovePodCgroup(t, podA)
	test.SliceNotContains(t, pods(podC, podB), types.UID(podA), test.Sprint("a pod that has ended"))
}

// TestPodGroupUnknown: while the kubelet does not say which claims a pod has, the pod has nothing of a claim of a
// PodGroup, and people are told why. It has the claim when the kubelet answers.
func TestPodGroupUnknown(t *testing.T) {
	for name, fault := range map[string]struct {
		begin func(*drivertest.Node) (end func())
		says  string        // in an event of the claim
		time  time.Duration // until the driver gives up, [Patience] for 0
	}{
		"no kubelet": {func(n *drivertest.Node) func() {
			socket := filepath.Join(n.Dir, "pod-resources", "kubelet.sock")
			must.NoError(t, os.Rename(socket, socket+".away"))
			return func() { must.NoError(t, os.Rename(socket+".away", socket)) }
		}, "kubelet.sock", 0},
		"slow": {(*drivertest.Node).HoldPodLists, "DeadlineExceeded", reservedTime},
		"always slow": {func(n *drivertest.Node) func() {
			n.SlowPodLists(700 * time.Millisecond) // more than the driver waits while a pod starts
			return func() {}
		}, "DeadlineExceeded", reservedTime},
		"error":                 {nil, "too many requests", 0},
		"the pod is not listed": {nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "hgx-h100")
			pod := Pod{Namespace: "team-a", Name: "a", UID: "uid-a"}
			claim := drivertest.ForPodGroup(drivertest.Claim(1, dev0), "workers")
			s.node.AddClaim(claim)
			ids := s.prepares(claim)
			end := func() {
				s.node.SetPods(nil)
				s.node.AddUsingPod(pod.Name, claim, ids...)
			}
			switch {
			case fault.begin != nil:
				s.node.AddUsingPod(pod.Name, claim, ids...)
				end = fault.begin(s.node)
			case fault.says != "":
				s.node.SetPods(errors.New(fault.says))
			}
			unanswered, err := s.learns(pod, cmp.Or(fault.time, Patience))
			test.Error(t, err)
			test.True(t, slices.Contains(unanswered, pod), test.Sprintf("unanswered are %v", unanswered))
			test.SliceEmpty(t, s.Reservations.PlansOf(s.ctx, pod.UID))
			if fault.says != "" {
				test.True(t, s.has(claim, event.MoveFailed, fault.says) && s.has(claim, event.MoveFailed, "PodGroup workers"),
					test.Sprintf("no event says %q", fault.says))
			}
			end()
			unanswered, err = s.learns(pod, Patience)
			test.NoError(t, err)
			test.SliceEmpty(t, unanswered)
			test.Len(t, 1, s.Reservations.PlansOf(s.ctx, pod.UID))
		})
	}
}
