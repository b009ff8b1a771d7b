package claimstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

const released = "pci-0000-3b-00-0"

// TestRelease: a claim goes if it may, once, and with what is left of it; else it stays as it was.
func TestRelease(t *testing.T) {
	s, _ := newStore(t)
	claim(t, s, planOf("a", released))
	rests := 0
	release := func(uid types.UID, answer bool) bool {
		t.Helper()
		done, err := s.Release(t.Context(), uid, func(p *plan.Plan) bool {
			test.Eq(t, uid, p.UID, test.Sprint("asked for claim"))
			return answer
		}, func() error { rests++; return nil })
		test.NoError(t, err)
		return done
	}
	test.True(t, !release("a", false) && has(t, s, "a") && rests == 0, test.Sprint("claim a went, and may not"))
	test.True(t, release("a", true) && !has(t, s, "a") && rests == 1, test.Sprint("claim a stays, and may go"))
	test.True(t, release("a", false) && release("unknown", false) && rests == 1,
		test.Sprint("a claim without a record is not forgotten"))
	claim(t, s, planOf("b", released))
}

// TestReleaseKeepsOut: while somebody finds out whether a claim may go, no other claim takes its HCA, and the claim
// itself is not prepared anew, by another process either. So an answer is never out of date when the record goes.
func TestReleaseKeepsOut(t *testing.T) {
	s, dir := newStore(t)
	claim(t, s, planOf("a", released))
	other := open(t, dir, thisBoot)
	_, err := s.Release(t.Context(), "a", func(*plan.Plan) bool {
		for _, store := range []*claimstore.Store{s, other} {
			for _, uid := range []string{"a", "b"} {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				test.ErrorIs(t, store.Claim(ctx, planOf(types.UID(uid), released)), context.DeadlineExceeded,
					test.Sprintf("claim %s takes the HCA meanwhile", uid))
			}
		}
		return true
	}, func() error {
		test.False(t, has(t, other, "a"), test.Sprint("the rest goes before the record"))
		return nil
	})
	must.NoError(t, err)
	claim(t, other, planOf("b", released))
}

func has(t *testing.T, s *claimstore.Store, uid types.UID) bool {
	t.Helper()
	p, err := s.Get(uid)
	test.NoError(t, err)
	return p != nil
}
