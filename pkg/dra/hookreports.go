package dra

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/reports"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
)

// reportInterval is how often the reports of the hook are read. Nothing waits for
// them: they are for people.
const reportInterval = 2 * time.Second

// reportLoop logs what the hook did in containers, and tells the users of their claims what
// they should know, until ctx ends. A container runtime shows what a hook says only when it
// fails, so this is where one learns that a limit was not raised as far as it should have been.
func (d *Driver) reportLoop(ctx context.Context) {
	if d.cfg.Hook.ReportDir == "" {
		return
	}
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		found := logReports(klog.FromContext(ctx), d.cfg.Hook.ReportDir, d.recordPods(ctx))
		d.cfg.Metrics.HookReports(found)
		for _, r := range found {
			d.recordReport(r)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// logReports logs the reports in a directory, records and removes them, and returns them.
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

// logLimit logs what has become of one HCA's limit in a container.
func logLimit(logger klog.Logger, container string, l hook.LimitResult) {
	values := []any{"container", container, "ibdev", l.Device, "limit", l.Want.String(), "outcome", l.Outcome, "detail", l.Message}
	if l.Outcome.Well() {
		logger.V(2).Info("Limit of a container on an HCA", values...)
	} else {
		logger.Error(nil, "A container is not limited on an HCA as its claim says", values...)
	}
}

// recordReport records what the report of the hook in a container means for its claim. The container has its network by
// then.
func (d *Driver) recordReport(r hook.Report) {
	p, err := d.claims.Get(types.UID(r.Claim))
	if r.Claim == "" || err != nil || p == nil {
		return // it has ended, or is of no claim
	}
	d.claimStatus.ContainerStarted(p.UID)
	for _, e := range d.eventsOf(r, p) {
		e.Pod, e.Start = types.UID(r.PodUID), true
		d.recorder.Record(e)
	}
}

// eventsOf returns the events of a claim that the report of one of its containers causes. Where the site has the hook
// ignore limits that it may not set, limits cause none.
func (d *Driver) eventsOf(r hook.Report, p *plan.Plan) (out []report.Event) {
	container := "container " + r.ID
	if r.Container != "" {
		container = "container " + r.Container
	}
	if d.cfg.Hook.OnDenied != string(hook.Ignore) {
		if !r.Outcome.Well() {
			out = append(out, report.OfClaim(p, report.MemlockNotRaised,
				fmt.Sprintf("%s has less locked memory than claim %s asks for: %s", container, p.Name, r.Message)))
		}
		for _, l := range r.Limits {
			if !l.Outcome.Well() {
				out = append(out, report.OfClaim(p, report.LimitNotSet,
					fmt.Sprintf("%s is not limited on %s as claim %s says: %s", container, l.Device, p.Name, l.Message)))
			}
		}
	}
	if r.HostNetwork == nil || *r.HostNetwork {
		return out
	}
	if names := (report.Addresses{Sys: d.host.sys}).WithoutNetdev(p, d.host.snapshot()); len(names) > 0 {
		out = append(out, report.OfClaim(p, report.NetdevMissing, fmt.Sprintf(
			"%s has RoCE devices of claim %s, but none of their network interfaces: %s stayed on the host. "+
				"RoCE needs an interface with an address in the pod: give it a VF's by a CNI plugin, or use hostNetwork",
			container, p.Name, strings.Join(names, ", "))))
	}
	return out
}
