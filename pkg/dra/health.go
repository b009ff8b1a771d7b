package dra

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The kubelet takes a device's health for unknown when it has not heard of it for
// the lease, and forgets all of a driver when one of its two processes of a
// rolling update ends, so reports are sent again well within the lease.
const (
	healthInterval = 10 * time.Second
	healthLease    = 30 * time.Second
)

// WatchHealthStatus implements kubeletplugin.DRAPlugin: it reports the port state
// of all devices until ctx ends.
func (d *Driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		report := healthReport(d.cfg.NodeName, d.host.snapshot(), time.Now())
		select {
		case <-ctx.Done():
			return nil
		case reports <- report:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func healthReport(pool string, snap *rdma.Snapshot, now time.Time) kubeletplugin.DeviceHealthReport {
	var report kubeletplugin.DeviceHealthReport
	for _, h := range snap.Usable() {
		status, message := health(h)
		report.Devices = append(report.Devices, kubeletplugin.DeviceHealth{
			PoolName: pool, DeviceName: h.Name, Health: status, Message: message,
			LastUpdated: now, HealthCheckTimeout: healthLease,
		})
	}
	return report
}

// health judges an HCA by its ports: one that is ACTIVE can carry traffic.
func health(h *rdma.HCA) (kubeletplugin.HealthStatus, string) {
	if h.Active() {
		return kubeletplugin.HealthStatusHealthy, ""
	}
	var ports []string
	for _, p := range h.Ports {
		if p.Representor {
			continue
		}
		if p.State == "" {
			return kubeletplugin.HealthStatusUnknown, fmt.Sprintf("the state of port %d cannot be read", p.Number)
		}
		ports = append(ports, fmt.Sprintf("port %d is %s (%s)", p.Number, p.State, p.PhysState))
	}
	if ports == nil {
		return kubeletplugin.HealthStatusUnknown, "no port can be read"
	}
	return kubeletplugin.HealthStatusUnhealthy, strings.Join(ports, ", ")
}
