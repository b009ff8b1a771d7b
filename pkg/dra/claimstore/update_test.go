package claimstore_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// TestUpdate: what several stores of one directory add to a claim at the same time is all there, and the other
// claims of its
// device are as they were.
func TestUpdate(t *testing.T) {
	s, dir := newStore(t)
	claim(t, s, sharesOf("a", "shared-pci-0000-3b-00-0"))
	claim(t, s, sharesOf("b", "shared-pci-0000-3b-00-0"))
	pods := []types.UID{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"}
	var all sync.WaitGroup
	for _, pod := range pods {
		other := open(t, dir, thisBoot)
		all.Go(func() {
			for range 2 { // once more changes nothing
				test.NoError(t, other.Update(t.Context(), "a", func(p *plan.Plan) *plan.Plan { return p.WithPods(pod) }))
			}
		})
	}
	all.Wait()
	for uid, want := range map[types.UID][]types.UID{"a": pods, "b": nil} {
		p, err := s.Get(uid)
		must.NoError(t, err)
		test.SliceEqOp(t, want, slices.Sorted(slices.Values(p.Pods)), test.Sprintf("pods of claim %s", uid))
	}
}

// TestUpdateEnds: a claim stays ended if another process ends it during an update of its record. Nobody would end it
// again.
func TestUpdateEnds(t *testing.T) {
	s, dir := newStore(t)
	claim(t, s, planOf("a", "pci-0000-3b-00-0"))
	asked := 0
	if err := s.Update(t.Context(), "a", func(p *plan.Plan) *plan.Plan {
		if asked++; asked == 2 { // the record was read for the last time
			test.NoError(t, open(t, dir, thisBoot).Remove("a"))
		}
		return p.WithPods("p")
	}); err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "claims"))
	test.True(t, err == nil && len(left) == 0, test.Sprintf("left is %v, %v", left, err))
}

// TestUpdateEnded: a claim that has ended, or is of an earlier boot, gets no record.
func TestUpdateEnded(t *testing.T) {
	s, dir := newStore(t)
	claim(t, s, planOf("a", "pci-0000-3b-00-0"))
	must.NoError(t, s.Remove("a"))
	claim(t, open(t, dir, claimstore.Boot{ID: "boot-1"}), planOf("b", "pci-0000-3b-00-1"))
	for _, uid := range []types.UID{"a", "b"} {
		test.NoError(t, s.Update(t.Context(), uid, func(p *plan.Plan) *plan.Plan { return p.WithPods("p") }))
		p, err := s.Get(uid)
		test.True(t, err == nil && p == nil, test.Sprintf("claim %s: %v, %v", uid, p, err))
	}
}
