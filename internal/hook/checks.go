package hook

import (
	"slices"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/usable"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

// checkUse returns what the container can use of the HCAs of --hca. It takes at most half of the time that is left: a
// file system may not answer, and the report must still be written.
func checkUse(r record.Report, opts args.Options, bundle string, deadline time.Time, std IO) []finding.Finding {
	if len(opts.HCAs) == 0 || opts.OnUnusable == args.IgnoreUnusable || std.Container == nil {
		return nil
	}
	var checks []finding.Finding // not read after the deadline
	if doBy(deadline.Add(-time.Until(deadline)/2), func() { checks = look(r, opts, bundle, std) }) {
		return checks
	}
	return unchecked("the container's files did not answer in time")
}

func look(r record.Report, opts args.Options, bundle string, std IO) []finding.Finding {
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
		checks = append(checks, record.Memlock.Found(finding.Warning, r.Message))
	case r.After != nil && r.Outcome.Well():
		checks = append(checks, usable.CheckMemlock(opts.Memlock, r.After.Soft, c.Process.Memlock, r.Status))
	}
	return checks
}

func unchecked(reason string) []finding.Finding {
	return []finding.Finding{record.Provider.Found(finding.NotSeen, reason)}
}

// keepsFromStarting reports whether a check keeps the container from starting with --on-unusable fail.
func keepsFromStarting(checks []finding.Finding) bool {
	return slices.ContainsFunc(checks, func(c finding.Finding) bool { return c.Severity == finding.Error })
}
