package drivertest

import (
	"fmt"
	"maps"
	"slices"
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
