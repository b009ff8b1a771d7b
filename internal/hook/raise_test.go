package hook

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

type rlimit = record.Rlimit

func limits(soft, hard args.Size) rlimit { return rlimit{Soft: soft, Hard: hard} }

// fakeProcess keeps the kernel's rules of prlimit(2).
type fakeProcess struct {
	limit       rlimit
	capResource bool  // the caller has CAP_SYS_RESOURCE
	getErr      error // of every Limit
	setErr      error // of every SetLimit
}

func (p *fakeProcess) Limit() (record.Rlimit, error) { return p.limit, p.getErr }

func (p *fakeProcess) SetLimit(l record.Rlimit) error {
	switch {
	case p.setErr != nil:
		return p.setErr
	case l.Soft > l.Hard:
		return unix.EINVAL
	case l.Hard > p.limit.Hard && !p.capResource:
		return unix.EPERM
	}
	p.limit = l
	return nil
}

const (
	k64   = args.Size(64 << 10)
	mib4  = args.Size(4 << 20)
	mib8  = args.Size(8 << 20)
	mib64 = args.Size(64 << 20)
)

// TestRaise is the decision table: limits before, limit wanted, permission and
// policy on the left, outcome and limits after on the right.
func TestRaise(t *testing.T) {
	const needs = "need CAP_SYS_RESOURCE to raise the hard limit of 8 MiB to "
	for _, tt := range []struct {
		before  rlimit
		want    args.Size
		cap     bool
		policy  args.OnDenied
		outcome record.Outcome
		after   rlimit
		message string
		denied  bool
	}{
		// With the capability the policy does not matter.
		{limits(k64, mib8), args.Unlimited, true, args.Clamp, record.Raised, limits(args.Unlimited, args.Unlimited),
			"from 64 KiB (hard limit 8 MiB) to unlimited", false},
		{limits(k64, mib8), args.Unlimited, true, args.Fail, record.Raised, limits(args.Unlimited, args.Unlimited), "raised",
			false},
		{limits(k64, mib8), mib64, true, args.Ignore, record.Raised, limits(mib64, mib64), "raised", false},
		{limits(k64, k64), mib8, true, args.Clamp, record.Raised, limits(mib8, mib8), "raised", false},
		// Below the hard limit nobody needs it, and the hard limit stays.
		{limits(k64, mib8), mib4, false, args.Clamp, record.Raised, limits(mib4, mib8), "to 4 MiB (hard limit 8 MiB)", false},
		{limits(k64, mib8), mib8, false, args.Fail, record.Raised, limits(mib8, mib8), "raised", false},
		{limits(k64, args.Unlimited), args.Unlimited, false, args.Fail, record.Raised, limits(args.Unlimited,
			args.Unlimited), "raised", false},
		{limits(0, mib8), 1, false, args.Clamp, record.Raised, limits(1, mib8), "from 0 bytes", false},
		// Enough already: never lowered.
		{limits(mib8, mib8), mib4, true, args.Clamp, record.Already, limits(mib8, mib8), "already 8 MiB", false},
		{limits(mib4, mib8), mib4, false, args.Fail, record.Already, limits(mib4, mib8),
			"already 4 MiB (hard limit 8 MiB), requested 4 MiB", false},
		{limits(args.Unlimited, args.Unlimited), mib4, true, args.Clamp, record.Already, limits(args.Unlimited,
			args.Unlimited), "already unlimited", false},
		{limits(args.Unlimited, args.Unlimited), args.Unlimited, false, args.Fail, record.Already, limits(args.Unlimited,
			args.Unlimited), "already", false},
		// Above the hard limit without the capability.
		{limits(k64, mib8), args.Unlimited, false, args.Clamp, record.Clamped, limits(mib8, mib8), needs + "unlimited",
			false},
		{limits(k64, mib8), mib64, false, args.Clamp, record.Clamped, limits(mib8, mib8),
			"raised the soft limit from 64 KiB to the hard limit", false},
		{limits(mib8, mib8), args.Unlimited, false, args.Clamp, record.Clamped, limits(mib8, mib8),
			"the soft limit already equals the hard limit", false},
		{limits(k64, mib8), args.Unlimited, false, args.Fail, record.Denied, limits(k64, mib8), needs + "unlimited", true},
		{limits(k64, mib8), mib64, false, args.Ignore, record.Denied, limits(k64, mib8), "left at 64 KiB", false},
	} {
		p := &fakeProcess{limit: tt.before, capResource: tt.cap}
		got, err := Raise(p, tt.want, tt.policy)
		if got.Outcome != tt.outcome || p.limit != tt.after || *got.Before != tt.before || *got.After != tt.after ||
			errors.Is(err, ErrDenied) != tt.denied || (err != nil) != tt.denied || !strings.Contains(got.Message, tt.message) {
			t.Errorf("Raise(%v, want %v, cap %v, %s) = %s, %v, limit %v, %q;\nwant %s, denied %v, limit %v, %q", tt.before,
				tt.want,
				tt.cap, tt.policy, got.Outcome, err, p.limit, got.Message, tt.outcome, tt.denied, tt.after, tt.message)
		}
	}
}

// Neither of the two limits may be touched: another user's process, without the
// capability in its user namespace.
func TestRaiseForeignProcess(t *testing.T) {
	for _, policy := range []args.OnDenied{args.Clamp, args.Fail, args.Ignore} {
		for name, p := range map[string]*fakeProcess{
			"unreadable":           {getErr: unix.EPERM},
			"read-only":            {limit: limits(k64, mib8), setErr: unix.EPERM},
			"read-only, unlimited": {limit: limits(k64, args.Unlimited), setErr: unix.EPERM},
		} {
			got, err := Raise(p, mib64, policy)
			if got.Outcome != record.Denied || errors.Is(err, ErrDenied) != (policy == args.Fail) || got.Message == "" {
				t.Errorf("%s, %s: %+v, %v; want denied, an error only for fail", name, policy, got, err)
			}
		}
	}
}

func TestRaiseFails(t *testing.T) {
	for name, p := range map[string]*fakeProcess{
		"get": {getErr: ErrGone},
		"set": {limit: limits(k64, mib8), setErr: ErrGone},
	} {
		got, err := Raise(p, mib64, args.Clamp)
		if got.Outcome != record.Failed || !errors.Is(err, ErrGone) || got.Message != err.Error() {
			t.Errorf("%s: %+v, %v; want failed because the process is gone", name, got, err)
		}
	}
}

// Whatever comes in, no limit ever goes down, and a second run changes nothing.
func TestRaiseNeverLowersAndIsIdempotent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	sizes := []args.Size{0, 1, k64, mib4, mib8, mib64, args.Unlimited - 1, args.Unlimited}
	pick := func() args.Size { return sizes[rnd.IntN(len(sizes))] }
	for range 20000 {
		a, b := pick(), pick()
		before := limits(min(a, b), max(a, b))
		p := &fakeProcess{limit: before, capResource: rnd.IntN(2) == 0}
		want, policy := max(pick(), 1), []args.OnDenied{args.Clamp, args.Fail, args.Ignore}[rnd.IntN(3)]
		first, _ := Raise(p, want, policy)
		after := p.limit
		if after.Soft < before.Soft || after.Hard < before.Hard || *first.After != after {
			t.Fatalf("Raise(%v, %v, %s): %v, reported %v", before, want, policy, after, *first.After)
		}
		second, _ := Raise(p, want, policy)
		again := first.Outcome
		if again == record.Raised {
			again = record.Already
		}
		if p.limit != after || second.Outcome != again {
			t.Fatalf("second Raise(%v, %v, %s): %s, limit %v; want %s, %v", before, want, policy, second.Outcome, p.limit, again,
				after)
		}
	}
}
