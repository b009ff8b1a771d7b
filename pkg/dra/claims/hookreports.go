package claims

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/reports"
)

// reportInterval is the interval of reading the hook's reports. It may be long, because the reports are for people.
const reportInterval = 2 * time.Second

// FollowHook reads the hook's reports until ctx ends. It logs them, records pods, and reports problems to the users of
// the claims. A container runtime shows the hook's output only if the hook fails. So only these reports show that a
// limit was not raised far enough.
func (c *Claims) FollowHook(ctx context.Context) {
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
func logReports(logger klog.Logger, dir string, record func(hook.Report) error) []hook.Report {
	found, err := reports.Take(dir, record)
	if err != nil {
		logger.Error(err, "Some reports of the hook are not read")
	}
	for _, r := range found {
		values := []any{"container", r.ID, "outcome", r.Outcome, "detail", r.Message, "warnings", r.Warnings}
		if r.Outcome.Well() {
			logger.V(2).Info("Locked memory limit of a container", values...)
		} else {
			logger.Error(nil, "Locked memory limit of a container is lower than its claim asks for", values...)
		}
		for _, l := range r.Limits {
			logLimit(logger, r.ID, l)
		}
	}
	return found
}

// logLimit logs the result for the limit on one HCA in a container.
func logLimit(logger klog.Logger, container string, l hook.LimitResult) {
	values := []any{
		"container", container, "ibdev", l.Device, "limit", l.Want.String(), "outcome", l.Outcome, "detail", l.Message,
	}
	if l.Outcome.Well() {
		logger.V(2).Info("Limit of a container on an HCA", values...)
	} else {
		logger.Error(nil, "A container is not limited on an HCA as its claim says", values...)
	}
}
