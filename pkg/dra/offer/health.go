package offer

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kubelet treats a device's health as unknown without a report within the lease. During a rolling update two
// drivers run, and the kubelet drops all reports of a driver when one of them ends. So reports are repeated well within
// the lease.
const (
	healthInterval = 10 * time.Second
	healthLease    = 30 * time.Second
)

// WatchHealth reports the health of all published devices to the kubelet, periodically and after each change, until ctx
// ends.
func (o *Offer) WatchHealth(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		judged := o.cfg.Node.Judged()
		report := healthReport(o.cfg.NodeName, judged.Health, o.Decision(ctx).Devices, o.cfg.Now())
		select {
		case <-ctx.Done():
			return nil
		case reports <- report:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-judged.Outdated():
		case <-ticker.C:
		}
	}
}

// healthReport describes the published devices.
func healthReport(pool string, view *health.View, devices map[string][]*rdma.HCA, now time.Time) kubeletplugin.DeviceHealthReport {
	var report kubeletplugin.DeviceHealthReport
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		status, message := healthOfAll(view, devices[name], now)
		report.Devices = append(report.Devices, kubeletplugin.DeviceHealth{
			PoolName: pool, DeviceName: name, Health: kubeletplugin.HealthStatus(status), Message: message,
			LastUpdated: now, HealthCheckTimeout: healthLease,
		})
	}
	return report
}

// healthOfAll returns the worst health of a device's HCAs, and the faults of each of them.
func healthOfAll(view *health.View, hcas []*rdma.HCA, now time.Time) (health.Status, string) {
	status := health.Healthy
	var messages []string
	for _, h := range hcas {
		one, message := view.Report(h.Name, now)
		if one == health.Unhealthy || status == health.Healthy {
			status = one
		}
		if message != "" {
			messages = append(messages, message)
		}
	}
	return status, health.Cut(strings.Join(messages, "; "))
}
