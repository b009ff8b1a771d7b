package drivertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// Published returns nil when the node's pool is complete.
func Published(n *Node) error {
	slices := n.Slices()
	if len(slices) == 0 || slices[0].Spec.Pool.ResourceSliceCount != int64(len(slices)) {
		return fmt.Errorf("%d slices are published", len(slices))
	}
	return nil
}

// WaitPublished waits until the node's pool is complete, and returns its slices.
func WaitPublished(t testing.TB, n *Node) []resourceapi.ResourceSlice {
	t.Helper()
	Eventually(t, func() error { return Published(n) })
	return n.Slices()
}

// DeviceNames lists the devices in slices, sorted.
func DeviceNames(in []resourceapi.ResourceSlice) []string {
	names := map[string]bool{}
	for _, s := range in {
		for _, d := range s.Spec.Devices {
			names[d.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// PublishedDevices lists the devices that are published, by name.
func PublishedDevices(n *Node) map[string]resourceapi.Device {
	out := map[string]resourceapi.Device{}
	for _, s := range n.Slices() {
		for _, d := range s.Spec.Devices {
			out[d.Name] = d
		}
	}
	return out
}

// Taints lists the taints of a published device: "rdma.dev/port-down:NoSchedule".
func Taints(n *Node, device string) string {
	d, ok := PublishedDevices(n)[device]
	if !ok {
		return "not published"
	}
	var out []string
	for _, t := range d.Taints {
		out = append(out, t.Key+":"+string(t.Effect))
	}
	return strings.Join(out, " ")
}

// WaitTaints waits until the node's pool is complete, and a device has these taints.
func WaitTaints(t testing.TB, n *Node, device, want string) {
	t.Helper()
	Eventually(t, func() error {
		if err := Published(n); err != nil {
			return err
		}
		if got := Taints(n, device); got != want {
			return fmt.Errorf("taints of %s are %q, want %q", device, got, want)
		}
		return nil
	})
}
