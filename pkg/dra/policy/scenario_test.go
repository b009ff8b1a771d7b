package policy_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// The classes of the chart, and two that a site makes for groups.
const (
	hca        = "hca.rdma.dev"
	parts      = "vf.hca.rdma.dev"
	share      = "shared.hca.rdma.dev"
	groupCards = "cards.group.example"
	groupParts = "parts.group.example"
)

// newCluster returns a cluster with one node, which publishes a machine by a policy.
func newCluster(t *testing.T, machine, text string, features controlplane.Features) *controlplane.Cluster {
	t.Helper()
	c := emptyCluster(t, features)
	publish(t, c, machine, text, policy.State{})
	return c
}

func emptyCluster(t *testing.T, features controlplane.Features) *controlplane.Cluster {
	t.Helper()
	return &controlplane.Cluster{Node: "node1", Features: features, Classes: append(controlplane.ChartClasses(t),
		controlplane.Class(groupCards,
			`device.driver == "rdma.dev" && device.attributes["rdma.dev"].?group.orValue("") == "cards"`),
		controlplane.Class(groupParts,
			`device.driver == "rdma.dev" && device.attributes["rdma.dev"].?group.orValue("") == "parts"`),
	)}
}

// publish publishes a machine by a policy, as the driver does once it knows which
// features the cluster has.
func publish(t *testing.T, c *controlplane.Cluster, machine, text string, state policy.State) {
	t.Helper()
	state.NoCounters, state.NoConsumable = !c.Features.PartitionableDevices, !c.Features.ConsumableCapacity
	c.Publish(rdma.Domain, parse(t, text).Apply(snapshot(t, machine), state).Slices())
}

// step is a claim that is made or ends.
type step struct {
	claim   string
	devices resourceapi.DeviceClaim
	want    []string // request=device; nil if the claim waits
	end     bool
}

// gets is a claim that is allocated, wait is one that is not, and end is one that ends.
func gets(claim string, devices resourceapi.DeviceClaim, want ...string) step {
	return step{claim: claim, devices: devices, want: want}
}

func waits(claim string, devices resourceapi.DeviceClaim) step {
	return step{claim: claim, devices: devices}
}

func end(claim string) step { return step{claim: claim, end: true} }

// run makes the steps in order.
func run(t *testing.T, c *controlplane.Cluster, steps ...step) {
	t.Helper()
	for i, s := range steps {
		if s.end {
			must.NotNil(t, c.Claims[s.claim], must.Sprintf("step %d: claim %s ends, which has nothing", i, s.claim))
			c.Release(s.claim)
			continue
		}
		must.SliceEqOp(t, s.want, take(t, c, s.claim, s.devices), must.Sprintf("step %d: claim %s gets", i, s.claim))
	}
}

// take allocates a claim and returns its results as request=device.
func take(t testing.TB, c *controlplane.Cluster, claim string, devices resourceapi.DeviceClaim) []string {
	t.Helper()
	var out []string
	for _, r := range c.Allocate(t, claim, devices) {
		out = append(out, r.Request+"="+r.Device)
	}
	return out
}

// one is a claim for one device of a class. pci may give the PCI function of the device.
func one(class string, pci ...string) resourceapi.DeviceClaim {
	return controlplane.Claim(controlplane.Request{Name: "nic", Class: class, Selectors: at(pci...)})
}

// some is a claim for one device of a class with capacity.
func some(class string, capacity map[string]string, pci ...string) resourceapi.DeviceClaim {
	return controlplane.Claim(controlplane.Request{Name: "nic", Class: class, Selectors: at(pci...), Capacity: capacity})
}

func many(class string, count int64) resourceapi.DeviceClaim {
	return controlplane.Claim(controlplane.Request{Name: "nic", Class: class, Count: count})
}

func admin(class string, pci ...string) resourceapi.DeviceClaim {
	return controlplane.Claim(controlplane.Request{Name: "nic", Class: class, Selectors: at(pci...), Admin: true})
}

func at(pci ...string) []string {
	var out []string
	for _, address := range pci {
		out = append(out, fmt.Sprintf(`device.attributes["resource.kubernetes.io"].?pciBusID.orValue("") == %q`, address))
	}
	return out
}
