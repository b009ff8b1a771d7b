package dra_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/shoenig/test"
)

// countersOn asks for counters, which keep the exclusive HCA, its shares and its VFs
// apart.
func countersOn(view string) []string {
	return append([]string{"partitioning: true"}, publish(view)...)
}

// TestWithoutFeatures: an API server that drops what it does not know is given what
// is safe without, once, and it is said once. A restart tries again.
func TestWithoutFeatures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		off   func(*drivertest.API)
		file  []string
		with  []string // devices of hca0 when the server has the feature
		less  []string // and when it has not
		gates []string // that are said to be off
	}{
		{
			"no counters, both", func(a *drivertest.API) { a.GatesOff(drivertest.GateCounters) }, countersOn("both"),
			[]string{hca0, "shared-" + hca0}, []string{"shared-" + hca0}, []string{drivertest.GateCounters},
		},
		{
			"no counters, exclusive", func(a *drivertest.API) { a.GatesOff(drivertest.GateCounters) }, countersOn("exclusive"),
			[]string{hca0}, nil, []string{drivertest.GateCounters},
		},
		{
			"counters of Kubernetes 1.34", (*drivertest.API).CountersBesideDevices, countersOn("both"),
			[]string{hca0, "shared-" + hca0}, []string{"shared-" + hca0}, []string{drivertest.GateCounters},
		},
		{
			"no consumable capacity", func(a *drivertest.API) { a.GatesOff(drivertest.GateConsumable) }, publish("shared"),
			[]string{"shared-" + hca0}, []string{"shared-" + hca0}, []string{drivertest.GateConsumable},
		},
		{
			"neither", func(a *drivertest.API) { a.GatesOff(drivertest.GateConsumable, drivertest.GateCounters) }, countersOn("both"),
			[]string{hca0, "shared-" + hca0}, []string{"shared-" + hca0}, []string{drivertest.GateConsumable, drivertest.GateCounters},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := drivertest.NewNode(t, "roce-sriov")
			tc.off(n.API)
			m := newConfigMap(t, tc.file...)
			d := start(t, n, m.with(t))
			for _, gate := range tc.gates {
				d.says("featureGate=\"" + gate + "\"")
			}
			waitFor(t, n, tc.less...)
			drivertest.Eventually(t, func() error { return plain(n, tc.gates) })
			// Another change is published without the feature from the start.
			m.set(t, append(tc.file, "  rail: 3")...)
			drivertest.Eventually(t, func() error { return railed(n, tc.less) })
			count := strings.Count(d.Log.String(), "The API server does not have an optional feature")
			test.Eq(t, len(tc.gates), count,
				test.Sprintf("it was said %d times, want once for each of %v", count, tc.gates))
			d.stop()
			n.GatesOff()
			start(t, n, m.with(t))
			waitFor(t, n, tc.with...)
			drivertest.Eventually(t, func() error {
				if plain(n, tc.gates) == nil {
					return fmt.Errorf("no field of %v is published", tc.gates)
				}
				return nil
			})
		})
	}
}

// plain returns nil when no published slice has a field of the features.
func plain(n *drivertest.Node, gates []string) error {
	if err := drivertest.Published(n); err != nil {
		return err
	}
	counters, consumable := slices.Contains(gates, drivertest.GateCounters), slices.Contains(gates, drivertest.GateConsumable)
	for _, s := range n.Slices() {
		if counters && len(s.Spec.SharedCounters) > 0 {
			return fmt.Errorf("slice %s has counters", s.Name)
		}
		for _, d := range s.Spec.Devices {
			if counters && len(d.ConsumesCounters) > 0 || consumable && (d.AllowMultipleAllocations != nil || len(d.Capacity) > 0) {
				return fmt.Errorf("device %s has fields of %v", d.Name, gates)
			}
		}
	}
	return nil
}

// railed returns nil when the devices have the attribute of the second file.
func railed(n *drivertest.Node, names []string) error {
	devices := publishedDevices(n)
	for _, name := range names {
		if _, ok := devices[name].Attributes["rail"]; !ok {
			return fmt.Errorf("%s has no rail, of %v", name, slices.Sorted(maps.Keys(devices)))
		}
	}
	return nil
}

// Without taints, what is draining cannot keep claims away. It is said, and the rest
// is published as before.
func TestWithoutTaints(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	n.GatesOff(drivertest.GateTaints)
	m := newConfigMap(t, publish("shared")...)
	d := start(t, n, m.with(t))
	shared := drivertest.Share(1, nil, "shared-"+hca0)
	n.AddClaim(shared)
	prepare(t, n, shared)
	waitFor(t, n, "shared-"+hca0)
	m.set(t, publish("exclusive")...)
	d.says(`featureGate="DRADeviceTaints"`)
	waitFor(t, n, "shared-"+hca0)
	unprepare(t, n, shared)
	waitFor(t, n, hca0)
}
