package hook

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Limit is a soft and a hard resource limit. The kernel checks the soft one; a
// process may raise its soft limit up to the hard one by itself.
type Limit struct {
	Soft Size `json:"soft"`
	Hard Size `json:"hard"`
}

func (l Limit) String() string {
	return l.Soft.String() + " (hard limit " + l.Hard.String() + ")"
}

// Process is what Raise changes. OpenProcess returns a real one.
type Process interface {
	// Limit reads the locked-memory limit.
	Limit() (Limit, error)
	// SetLimit replaces it. Permission denied is an error that is unix.EPERM.
	SetLimit(Limit) error
}

// OnDenied says what to do where the hard limit may not be raised.
type OnDenied string

// The values of --on-denied.
const (
	Clamp  OnDenied = "clamp"  // raise the soft limit to the hard limit, and say so
	Fail   OnDenied = "fail"   // leave the limit as it is and stop the container's start
	Ignore OnDenied = "ignore" // leave the limit as it is, quietly
)

// Outcome is what has become of a limit, in one word of the report.
type Outcome string

// The outcomes.
const (
	Raised  Outcome = "raised"  // the soft limit is now what was asked for
	Already Outcome = "already" // it was that much or more before
	Clamped Outcome = "clamped" // it is now the hard limit, which is less than asked for
	Denied  Outcome = "denied"  // not permitted, and left as it is
	Skipped Outcome = "skipped" // there is nothing to do: no process, or no --memlock
	Failed  Outcome = "failed"  // not possible for another reason, such as a process that is gone

	Limited    Outcome = "limited"   // a device's limit is now as asked for
	Unenforced Outcome = "unlimited" // the kernel cannot limit the device for this container
)

// Well reports whether a limit is as it was asked for.
func (o Outcome) Well() bool {
	return o == Raised || o == Already || o == Skipped || o == Limited
}

// Result is what Raise did.
type Result struct {
	Outcome Outcome
	Before  *Limit // nil where it could not be read
	After   *Limit // nil where Before is
	Message string // the outcome in words, with numbers
}

// ErrDenied is in the error of Raise where permission is missing and the policy
// is Fail.
var ErrDenied = errors.New("not permitted")

// Raise lifts the locked-memory limit of p to want. It never lowers the soft or
// the hard limit, so it may run any number of times and in any order with
// others. The error is not nil only where the policy is Fail, or where the
// limit cannot be changed for another reason than permission; the result is
// meaningful in any case.
func Raise(p Process, want Size, policy OnDenied) (Result, error) {
	before, err := p.Limit()
	if err != nil {
		return conclude(Result{}, policy, "need CAP_SYS_RESOURCE for a process of other users, as in a user namespace: its locked-memory limit cannot be read", err)
	}
	unchanged := Result{Before: &before, After: &before}
	if before.Soft >= want {
		unchanged.Outcome = Already
		unchanged.Message = "locked-memory limit is already " + before.String() + ", asked for " + want.String()
		return unchanged, nil
	}
	// hard >= soft holds in the kernel, so this raises both or leaves hard alone.
	target := Limit{Soft: want, Hard: max(before.Hard, want)}
	err = p.SetLimit(target)
	if err == nil {
		return changed(Raised, before, target, "raised locked-memory limit from "+before.String()+" to "+target.String()), nil
	}
	if err == unix.EPERM && target.Hard > before.Hard {
		return hardDenied(p, before, want, policy)
	}
	return conclude(unchanged, policy, "the locked-memory limit of "+before.String()+" cannot be changed", err)
}

// hardDenied applies the policy for a hard limit that may not be raised.
func hardDenied(p Process, before Limit, want Size, policy OnDenied) (Result, error) {
	need := "need CAP_SYS_RESOURCE to raise the hard limit of " + before.Hard.String() + " to " + want.String() +
		" (give it to the container runtime, or raise the runtime's own limit, with systemd LimitMEMLOCK=)"
	unchanged := Result{Before: &before, After: &before}
	if policy != Clamp {
		return conclude(unchanged, policy, need+"; limit left at "+before.String(), unix.EPERM)
	}
	target := Limit{Soft: before.Hard, Hard: before.Hard}
	if target == before {
		return changed(Clamped, before, before, need+"; the soft limit already equals the hard limit"), nil
	}
	if err := p.SetLimit(target); err != nil {
		return conclude(unchanged, policy, need+"; the soft limit of "+before.Soft.String()+" cannot be changed either", err)
	}
	return changed(Clamped, before, target, need+"; raised the soft limit from "+before.Soft.String()+" to the hard limit"), nil
}

func changed(o Outcome, before, after Limit, message string) Result {
	return Result{Outcome: o, Before: &before, After: &after, Message: message}
}

// conclude ends an attempt that left the limit alone.
func conclude(r Result, policy OnDenied, message string, err error) (Result, error) {
	if err != unix.EPERM {
		err = wrap(message, err)
		r.Outcome, r.Message = Failed, err.Error()
		return r, err
	}
	r.Outcome, r.Message = Denied, message
	if policy == Fail {
		return r, wrap(message, ErrDenied)
	}
	return r, nil
}
