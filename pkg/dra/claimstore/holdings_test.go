package claimstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// TestNameRemovedByHand: the HCA of a claim is given to no other one, whatever somebody does to the names beside it.
func TestNameRemovedByHand(t *testing.T) {
	ctx := context.Background()
	for name, spoil := range map[string]func(dir string) error{
		"the name": func(dir string) error { return os.Remove(filepath.Join(dir, "devices/a/1")) },
		"the HCA":  func(dir string) error { return os.RemoveAll(filepath.Join(dir, "devices/a")) },
		"all":      func(dir string) error { return os.RemoveAll(filepath.Join(dir, "devices")) },
		"what the name says": func(dir string) error {
			return os.Rename(filepath.Join(dir, "devices/a/1"), filepath.Join(dir, "devices/a/1.shared"))
		},
	} {
		for when, other := range map[string]func(t *testing.T, s *claimstore.Store, dir string) *claimstore.Store{
			"beside its driver": func(_ *testing.T, s *claimstore.Store, _ string) *claimstore.Store { return s },
			"by the next driver": func(t *testing.T, _ *claimstore.Store, dir string) *claimstore.Store {
				s := open(t, dir, thisBoot)
				test.NoError(t, s.Rebuild())
				return s
			},
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				s, dir := newStore(t)
				claim(t, s, planOf("1", "a"))
				must.NoError(t, spoil(dir))
				s = other(t, s, dir)
				var inUse plan.InUseError
				test.True(t, errors.As(s.Claim(ctx, planOf("2", "a")), &inUse), test.Sprint("a second claim"))
				test.True(t, errors.As(s.Claim(ctx, sharesOf("3", "a")), &inUse), test.Sprint("a share"))
				wantPlans(t, s, "1")
				must.NoError(t, s.Remove("1"))
				claim(t, s, planOf("2", "a"))
			})
		}
	}
}

// TestEndedElsewhere: what a process remembers of a claim that another one has ended keeps nobody out.
func TestEndedElsewhere(t *testing.T) {
	s, dir := newStore(t)
	claim(t, s, planOf("1", "a"))
	other := open(t, dir, thisBoot)
	must.NoError(t, other.Remove("1"))
	claim(t, other, planOf("2", "a"))
	must.NoError(t, other.Remove("2"))
	claim(t, s, planOf("3", "a"))
	wantPlans(t, s, "3")
}

// TestBytesOfNode: claims together take no more of the node than they may, and leave what they took.
func TestBytesOfNode(t *testing.T) {
	ctx := context.Background()
	s, dir := newStore(t)
	for uid, bytes := range map[string]int{"1": plan.MaxNode / 2, "2": plan.MaxNode / 3} {
		p := planOf(types.UID(uid), "hca"+uid)
		p.Bytes = bytes
		claim(t, s, p)
		claim(t, s, p) // again, which takes nothing more
	}
	third := planOf("3", "hca3")
	third.Bytes = plan.MaxNode / 4
	for when, s := range map[string]*claimstore.Store{"its driver": s, "the next driver": open(t, dir, thisBoot)} {
		_, err := s.List()
		must.NoError(t, err)
		var tooMuch plan.TooMuchError
		test.True(t, errors.As(s.Claim(ctx, third), &tooMuch), test.Sprint(when))
	}
	wantPlans(t, s, "1", "2")
	must.NoError(t, s.Remove("2"))
	claim(t, s, third)
}

// TestBytesOfRecord: a record has a bound, and the error says what of the claim makes it long.
func TestBytesOfRecord(t *testing.T) {
	s, dir := newStore(t)
	p := planOf("1", "a")
	p.Site = &plan.Site{Env: []string{"A=" + string(make([]byte, plan.MaxRecord))}}
	var tooMuch plan.TooMuchError
	test.True(t, errors.As(s.Claim(context.Background(), p), &tooMuch))
	_, err := os.Stat(filepath.Join(dir, "devices", "a"))
	test.ErrorIs(t, err, os.ErrNotExist, test.Sprint("the refused claim has locked its HCA"))
}

// TestLockClaim: a claim is locked for one at a time, in a process and between two, and no file has to be there for it.
func TestLockClaim(t *testing.T) {
	s, dir := newStore(t)
	other := open(t, dir, thisBoot)
	lock := func(s *claimstore.Store, uid string) (func(), error) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		return s.LockClaim(ctx, types.UID(uid))
	}
	release, err := s.LockClaim(context.Background(), "1")
	must.NoError(t, err)
	for name, s := range map[string]*claimstore.Store{"this process": s, "another": other} {
		if _, err := lock(s, "1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s locks it as well: %v", name, err)
		}
		free, err := lock(s, "2")
		must.NoError(t, err, must.Sprintf("%s: another claim", name))
		free()
	}
	got := make(chan error)
	go func() {
		free, err := other.LockClaim(context.Background(), "1")
		if err == nil {
			free()
		}
		got <- err
	}()
	release()
	test.NoError(t, <-got, test.Sprint("after its release"))
	for _, bad := range []string{"..", "../x", "", "a/b"} {
		_, err := lock(s, bad)
		test.Error(t, err, test.Sprintf("a claim of UID %q is locked", bad))
	}
}

// TestLockFileRemovedByHand: two processes still exclude each other, from the next lock on.
func TestLockFileRemovedByHand(t *testing.T) {
	s, dir := newStore(t)
	other := open(t, dir, thisBoot)
	for _, s := range []*claimstore.Store{s, other} {
		release, err := s.LockClaim(context.Background(), "1")
		must.NoError(t, err)
		release()
	}
	must.NoError(t, os.Remove(filepath.Join(dir, "claims.lock")))
	release, err := s.LockClaim(context.Background(), "1")
	must.NoError(t, err)
	defer release()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = other.LockClaim(ctx, "1")
	test.ErrorIs(t, err, context.DeadlineExceeded, test.Sprint("another process locks it as well"))
}
