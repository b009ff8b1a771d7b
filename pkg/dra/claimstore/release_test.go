package claimstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

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
			if p.UID != uid {
				t.Errorf("asked for claim %s, want %s", p.UID, uid)
			}
			return answer
		}, func() error { rests++; return nil })
		if err != nil {
			t.Error(err)
		}
		return done
	}
	if release("a", false) || !has(t, s, "a") || rests != 0 {
		t.Error("claim a went, and may not")
	}
	if !release("a", true) || has(t, s, "a") || rests != 1 {
		t.Error("claim a stays, and may go")
	}
	if !release("a", false) || !release("unknown", false) || rests != 1 {
		t.Error("a claim without a record is not forgotten")
	}
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
				if err := store.Claim(ctx, planOf(types.UID(uid), released)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("claim %s takes the HCA meanwhile: %v", uid, err)
				}
			}
		}
		return true
	}, func() error {
		if has(t, other, "a") {
			t.Error("the rest goes before the record")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	claim(t, other, planOf("b", released))
}

func has(t *testing.T, s *claimstore.Store, uid types.UID) bool {
	t.Helper()
	p, err := s.Get(uid)
	if err != nil {
		t.Error(err)
	}
	return p != nil
}
