package dra

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
		report := healthReport(d.cfg.NodeName, d.host.snapshot(), d.latest(ctx).devices, time.Now())
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

// healthReport describes the devices whose HCAs are all there.
func healthReport(pool string, snap *rdma.Snapshot, devices map[string][]*rdma.HCA, now time.Time) kubeletplugin.DeviceHealthReport {
	var report kubeletplugin.DeviceHealthReport
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		status, message, present := healthOfAll(snap, devices[name])
		if !present {
			continue
		}
		report.Devices = append(report.Devices, kubeletplugin.DeviceHealth{
			PoolName: pool, DeviceName: name, Health: status, Message: message,
			LastUpdated: now, HealthCheckTimeout: healthLease,
		})
	}
	return report
}

// healthOfAll judges a device by the worst of its HCAs, and says which of a group
// that is.
func healthOfAll(snap *rdma.Snapshot, hcas []*rdma.HCA) (status kubeletplugin.HealthStatus, message string, present bool) {
	status = kubeletplugin.HealthStatusHealthy
	var messages []string
	for _, h := range hcas {
		now := snap.Lookup(h.Name)
		if now == nil || now.Unusable() != nil {
			return status, "", false
		}
		one, why := health(now)
		if one == kubeletplugin.HealthStatusHealthy {
			continue
		}
		if status != kubeletplugin.HealthStatusUnhealthy {
			status = one
		}
		if len(hcas) > 1 {
			why = now.IBDev + ": " + why
		}
		messages = append(messages, why)
	}
	return status, cut(strings.Join(messages, "; ")), true
}

// cut shortens a message to what the kubelet takes (KEP-4680).
func cut(message string) string {
	const limit = 1024
	if len(message) <= limit {
		return message
	}
	return message[:limit-3] + "..."
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
