package hook

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
)

// fakeProcess keeps the kernel's rules of prlimit(2).
type fakeProcess struct {
	limit       Limit
	capResource bool  // the caller has CAP_SYS_RESOURCE
	getErr      error // of every Limit
	setErr      error // of every SetLimit
}

func (p *fakeProcess) Limit() (Limit, error) { return p.limit, p.getErr }

func (p *fakeProcess) SetLimit(l Limit) error {
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
		before  Limit
		want    args.Size
		cap     bool
		policy  args.OnDenied
		outcome Outcome
		after   Limit
		message string
		denied  bool
	}{
		// With the capability the policy does not matter.
		{Limit{k64, mib8}, args.Unlimited, true, args.Clamp, Raised, Limit{args.Unlimited, args.Unlimited},
			"from 64 KiB (hard limit 8 MiB) to unlimited", false},
		{Limit{k64, mib8}, args.Unlimited, true, args.Fail, Raised, Limit{args.Unlimited, args.Unlimited}, "raised", false},
		{Limit{k64, mib8}, mib64, true, args.Ignore, Raised, Limit{mib64, mib64}, "raised", false},
		{Limit{k64, k64}, mib8, true, args.Clamp, Raised, Limit{mib8, mib8}, "raised", false},
		// Below the hard limit nobody needs it, and the hard limit stays.
		{Limit{k64, mib8}, mib4, false, args.Clamp, Raised, Limit{mib4, mib8}, "to 4 MiB (hard limit 8 MiB)", false},
		{Limit{k64, mib8}, mib8, false, args.Fail, Raised, Limit{mib8, mib8}, "raised", false},
		{Limit{k64, args.Unlimited}, args.Unlimited, false, args.Fail, Raised, Limit{args.Unlimited, args.Unlimited}, "raised", false},
		{Limit{0, mib8}, 1, false, args.Clamp, Raised, Limit{1, mib8}, "from 0 bytes", false},
		// Enough already: never lowered.
		{Limit{mib8, mib8}, mib4, true, args.Clamp, Already, Limit{mib8, mib8}, "already 8 MiB", false},
		{Limit{mib4, mib8}, mib4, false, args.Fail, Already, Limit{mib4, mib8},
			"already 4 MiB (hard limit 8 MiB), requested 4 MiB", false},
		{Limit{args.Unlimited, args.Unlimited}, mib4, true, args.Clamp, Already, Limit{args.Unlimited, args.Unlimited}, "already unlimited", false},
		{Limit{args.Unlimited, args.Unlimited}, args.Unlimited, false, args.Fail, Already, Limit{args.Unlimited, args.Unlimited}, "already", false},
		// Above the hard limit without the capability.
		{Limit{k64, mib8}, args.Unlimited, false, args.Clamp, Clamped, Limit{mib8, mib8}, needs + "unlimited", false},
		{Limit{k64, mib8}, mib64, false, args.Clamp, Clamped, Limit{mib8, mib8},
			"raised the soft limit from 64 KiB to the hard limit", false},
		{Limit{mib8, mib8}, args.Unlimited, false, args.Clamp, Clamped, Limit{mib8, mib8},
			"the soft limit already equals the hard limit", false},
		{Limit{k64, mib8}, args.Unlimited, false, args.Fail, Denied, Limit{k64, mib8}, needs + "unlimited", true},
		{Limit{k64, mib8}, mib64, false, args.Ignore, Denied, Limit{k64, mib8}, "left at 64 KiB", false},
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
			"read-only":            {limit: Limit{k64, mib8}, setErr: unix.EPERM},
			"read-only, unlimited": {limit: Limit{k64, args.Unlimited}, setErr: unix.EPERM},
		} {
			got, err := Raise(p, mib64, policy)
			if got.Outcome != Denied || errors.Is(err, ErrDenied) != (policy == args.Fail) || got.Message == "" {
				t.Errorf("%s, %s: %+v, %v; want denied, an error only for fail", name, policy, got, err)
			}
		}
	}
}

func TestRaiseFails(t *testing.T) {
	for name, p := range map[string]*fakeProcess{
		"get": {getErr: ErrGone},
		"set": {limit: Limit{k64, mib8}, setErr: ErrGone},
	} {
		got, err := Raise(p, mib64, args.Clamp)
		if got.Outcome != Failed || !errors.Is(err, ErrGone) || got.Message != err.Error() {
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
		before := Limit{min(a, b), max(a, b)}
		p := &fakeProcess{limit: before, capResource: rnd.IntN(2) == 0}
		want, policy := max(pick(), 1), []args.OnDenied{args.Clamp, args.Fail, args.Ignore}[rnd.IntN(3)]
		first, _ := Raise(p, want, policy)
		after := p.limit
		if after.Soft < before.Soft || after.Hard < before.Hard || *first.After != after {
			t.Fatalf("Raise(%v, %v, %s): %v, reported %v", before, want, policy, after, *first.After)
		}
		second, _ := Raise(p, want, policy)
		again := first.Outcome
		if again == Raised {
			again = Already
		}
		if p.limit != after || second.Outcome != again {
			t.Fatalf("second Raise(%v, %v, %s): %s, limit %v; want %s, %v", before, want, policy, second.Outcome, p.limit, again,
				after)
		}
	}
}
