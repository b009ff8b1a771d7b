package claims

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/reports"
)

// reportInterval is the interval of reading the hook's reports. It may be long, because the reports are for people.
const reportInterval = 2 * time.Second

// FollowHook reads the hook's reports until ctx ends. It logs them, records pods, and reports problems to the users of
// the claims. A container runtime shows the hook's output only if the hook fails. So only these reports show that a
// limit was not raised far enough.
func (c *Reservations) FollowHook(ctx context.Context) {
	if c.cfg.Hook.ReportDir == "" {
		return
	}
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		found := logReports(klog.FromContext(ctx), c.cfg.Hook.ReportDir, c.recordPods(ctx))
		c.cfg.Metrics.HookReports(found)
		for _, r := range found {
			if p, err := c.cfg.Store.Get(types.UID(r.Claim)); r.Claim != "" && err == nil && p != nil {
				c.cfg.Report.ContainerReported(r, p)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// logReports reads, records and removes the reports in a directory, logs them, and returns them.
func logReports(logger klog.Logger, dir string, keep func(record.Report) error) []record.Report {
	found, err := reports.Take(dir, keep)
	if err != nil {
		logger.Error(err, "Some reports of the hook are not read")
	}
	for _, r := range found {
		logOutcome(logger, r.Outcome.Well(), "Locked memory limit of a container",
			"Locked memory limit of a container is lower than its claim asks for",
			"container", r.ID, "outcome", r.Outcome, "detail", r.Message, "warnings", r.Warnings)
		for _, l := range r.Limits {
			logOutcome(logger, l.Outcome.Well(), "Limit of a container on an HCA",
				"A container is not limited on an HCA as its claim says",
				"container", r.ID, "ibdev", l.Device, "limit", l.Want.String(), "outcome", l.Outcome, "detail", l.Message)
		}
		for _, c := range r.Checks {
			logOutcome(logger, !c.Severity.Bad(), "Use of an HCA in a container",
				"A container cannot use an HCA that it has",
				"container", r.ID, "kind", c.ID, "ibdevs", c.Subjects, "result", c.Severity,
				"detail", c.Message, "remedy", c.Remedy)
		}
	}
	return found
}

// logOutcome logs what the hook has done: good text in detail only, bad text as an error.
func logOutcome(logger klog.Logger, well bool, good, bad string, values ...any) {
	if well {
		logger.V(2).Info(good, values...)
	} else {
		logger.Error(nil, bad, values...)
	}
}
