package resources_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestSlicesAreValid checks what the API server would.
func TestSlicesAreValid(t *testing.T) {
	snaps := map[string]*rdma.Snapshot{"large": large(t, 1016)}
	for _, machine := range fixture.Names() {
		snaps[machine] = rdmatest.Snapshot(t, machine)
	}
	for machine, snap := range snaps {
		t.Run(machine, func(t *testing.T) {
			cluster := controlplane.Cluster{Node: node, Features: controlplane.V136()}
			cluster.Publish(rdma.Domain, exclusive(snap))
			for _, s := range cluster.Slices() {
				test.NoError(t, controlplane.Validate(s))
			}
		})
	}
}

// An attribute that is longer than the API takes is left out: it would make the
// whole slice invalid.
func TestLongValueIsLeftOut(t *testing.T) {
	snap := rdmatest.Snapshot(t, "hgx-h100")
	h := snap.HCAs[0]
	long := ""
	for len(long) <= resourceapi.DeviceAttributeMaxValueLength {
		long += "firmware "
	}
	h.Firmware = long
	if a, ok := resources.Attributes(&h, snap.NetnsMode)["firmware"]; ok {
		t.Errorf("firmware is published as %q", *a.StringValue)
	}
}

// splitName splits a qualified name into domain, "" for the driver's own, and
// identifier.
func splitName(name resourceapi.QualifiedName) (domain, id string) {
	if domain, id, ok := strings.Cut(string(name), "/"); ok {
		return domain, id
	}
	return "", string(name)
}
