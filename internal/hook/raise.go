package hook

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// Process has the limit that Raise changes. OpenProcess returns a real process.
type Process interface {
	// Limit reads the locked-memory limit.
	Limit() (record.Rlimit, error)
	// SetLimit replaces the limit. If it is not permitted, the error must be unix.EPERM itself.
	SetLimit(record.Rlimit) error
}

// Result is the result of Raise.
type Result struct {
	Outcome record.Outcome
	Before  *record.Rlimit // nil if it could not be read
	After   *record.Rlimit // nil if Before is
	Message string         // the outcome in words, with numbers
}

// ErrDenied is in the error of Raise if permission is missing and the policy is Fail.
var ErrDenied = errors.New("not permitted")

// Raise raises the locked-memory limit of p to want. It is idempotent: it never lowers the soft or the hard limit. It
// returns an error only if the policy is Fail, or if it fails for another reason than missing permission. The result is
// valid even with an error. act (run.go) does not call it for a state without a process.
func Raise(p Process, want args.Size, policy args.OnDenied) (Result, error) {
	before, err := p.Limit()
	if err != nil {
		return unraised(Result{}, policy, "the locked-memory limit cannot be read: need CAP_SYS_RESOURCE for a process of "+
			"another user, as in a user namespace", err)
	}
	unchanged := Result{Before: &before, After: &before}
	if before.Soft >= want {
		unchanged.Outcome = record.Already
		unchanged.Message = fmt.Sprintf("locked-memory limit is already %v, requested %v", before, want)
		return unchanged, nil
	}
	target := record.Rlimit{Soft: want, Hard: max(before.Hard, want)}
	err = p.SetLimit(target)
	if err == nil {
		return changed(record.Raised, before, target, fmt.Sprintf("raised locked-memory limit from %v to %v", before,
			target)), nil
	}
	if err == unix.EPERM && target.Hard > before.Hard {
		return hardDenied(p, before, want, policy)
	}
	return unraised(unchanged, policy, fmt.Sprintf("the locked-memory limit of %v cannot be changed", before), err)
}

// hardDenied applies the policy for a hard limit that may not be raised.
func hardDenied(p Process, before record.Rlimit, want args.Size, policy args.OnDenied) (Result, error) {
	need := fmt.Sprintf("need CAP_SYS_RESOURCE to raise the hard limit of %v to %v (give it to the container runtime, or "+
		"raise the runtime's own limit, with systemd LimitMEMLOCK=)", before.Hard, want)
	unchanged := Result{Before: &before, After: &before}
	if policy != args.Clamp {
		return unraised(unchanged, policy, need+"; limit left at "+before.String(), unix.EPERM)
	}
	target := record.Rlimit{Soft: before.Hard, Hard: before.Hard}
	if target == before {
		return changed(record.Clamped, before, before, need+"; the soft limit already equals the hard limit"), nil
	}
	if err := p.SetLimit(target); err != nil {
		need += "; the soft limit of " + before.Soft.String() + " cannot be changed either"
		return unraised(unchanged, policy, need, err)
	}
	need += "; raised the soft limit from " + before.Soft.String() + " to the hard limit"
	return changed(record.Clamped, before, target, need), nil
}

func changed(o record.Outcome, before, after record.Rlimit, message string) Result {
	return Result{Outcome: o, Before: &before, After: &after, Message: message}
}

// unraised returns the result for a limit that Raise did not change.
func unraised(r Result, policy args.OnDenied, message string, err error) (Result, error) {
	if err != unix.EPERM {
		err = wrap(message, err)
		r.Outcome, r.Message = record.Failed, err.Error()
		return r, err
	}
	r.Outcome, r.Message = record.Denied, message
	if policy == args.Fail {
		return r, wrap(message, ErrDenied)
	}
	return r, nil
}
