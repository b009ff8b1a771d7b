package hook

import (
	"slices"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
)

// check records what the container can use of the HCAs of --hca. It takes at most half of the time that is left: a file
// system may not answer, and the report must still be written.
func (r *Report) check(opts args.Options, bundle string, deadline time.Time, std IO) {
	if len(opts.HCAs) == 0 || opts.OnUnusable == args.IgnoreUnusable || std.Container == nil {
		return
	}
	var checks []usable.Check // not read after the deadline
	if doBy(deadline.Add(-time.Until(deadline)/2), func() { checks = r.look(opts, bundle, std) }) {
		r.Checks = checks
		return
	}
	r.Checks = unchecked("the container's files did not answer in time")
}

func (r *Report) look(opts args.Options, bundle string, std IO) []usable.Check {
	c, err := std.Container(r.PID, bundle)
	if err != nil {
		return unchecked(err.Error())
	}
	defer c.Close()
	checks := c.Check(opts.HCAs)
	if len(checks) == 0 || opts.Memlock == 0 {
		return checks
	}
	switch {
	case !r.Outcome.Well() && opts.OnDenied != args.Ignore:
		checks = append(checks, usable.Check{Kind: usable.Memlock, Result: usable.Unusable, Message: r.Message})
	case r.After != nil && r.Outcome.Well():
		checks = append(checks, usable.CheckMemlock(opts.Memlock, r.After.Soft, c.Process.Memlock, r.Status))
	}
	return checks
}

func unchecked(reason string) []usable.Check {
	return []usable.Check{{Kind: usable.Provider, Result: usable.NotChecked, Message: reason}}
}

// fails reports whether a check keeps the container from starting with --on-unusable fail.
func (r *Report) fails() bool {
	return slices.ContainsFunc(r.Checks, func(c usable.Check) bool { return c.Result == usable.Unusable && c.Fails })
}
