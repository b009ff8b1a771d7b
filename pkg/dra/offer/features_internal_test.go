package offer

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/shoenig/test"
)

// countersOn asks for counters, which keep the exclusive HCA, its shares and its VFs
// apart.
func countersOn(view string) []string {
	return append([]string{"partitioning: true"}, pfs(view)...)
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
			"no consumable capacity", func(a *drivertest.API) { a.GatesOff(drivertest.GateConsumable) }, pfs("shared"),
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
			o := offers(t, n, policyOf(t, tc.file...))
			for _, gate := range tc.gates {
				o.WaitLog("featureGate=\"" + gate + "\"")
			}
			o.publishes(tc.less...)
			drivertest.Eventually(t, func() error { return plain(n, tc.gates) })
			// Another change is published without the feature from the start.
			o.uses(policyOf(t, append(tc.file, "  rail: 3")...))
			drivertest.Eventually(t, func() error { return railed(n, tc.less) })
			test.Eq(t, len(tc.gates), o.lacks(), test.Sprintf("it was said, want once for each of %v", tc.gates))
			n.GatesOff()
			o.restart(policyOf(t, tc.file...))
			o.publishes(tc.with...)
			drivertest.Eventually(t, func() error {
				if plain(n, tc.gates) == nil {
					return fmt.Errorf("no field of %v is published", tc.gates)
				}
				return nil
			})
		})
	}
}

// publishes waits until the published devices of hca0 are just these.
func (o *offering) publishes(want ...string) {
	o.t.Helper()
	drivertest.Eventually(o.t, func() error {
		if err := drivertest.Published(o.Node); err != nil && len(want) > 0 {
			return err
		}
		if got := o.devices(hca0); !slices.Equal(got, want) {
			return fmt.Errorf("devices of %s are %v, want %v", hca0, got, want)
		}
		return nil
	})
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
	devices := drivertest.PublishedDevices(n)
	for _, name := range names {
		if _, ok := devices[name].Attributes["rail"]; !ok {
			return fmt.Errorf("%s has no rail, of %v", name, slices.Sorted(maps.Keys(devices)))
		}
	}
	return nil
}

// TestWithoutTaints: without taints, what is draining cannot keep claims away. It is said, and the rest is published as
// before.
func TestWithoutTaints(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	n.GatesOff(drivertest.GateTaints)
	o := offers(t, n, policyOf(t, pfs("shared")...))
	shared := drivertest.Share(1, nil, "shared-"+hca0)
	o.holds(shared)
	o.publishes("shared-" + hca0)
	o.uses(policyOf(t, pfs("exclusive")...))
	o.WaitLog(`featureGate="DRADeviceTaints"`)
	o.publishes("shared-" + hca0)
	o.ends(shared)
	o.publishes(hca0)
}

// TestTaintPolicy: the effect of a taint is the site's, and follows its policy.
func TestTaintPolicy(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	rdmatest.SetPort(t, n.Root, "mlx5_0", "1: DOWN", "3: Disabled")
	o := offers(t, n, policyOf(t, "taints: {port-down: NoExecute}"))
	o.taints(dev0, "rdma.dev/port-down:NoExecute")
	o.uses(policyOf(t, "taints:", "  rdma.dev/port-down: Off"))
	o.taints(dev0, "")
}

// TestTaintsDropped: where the API server drops taints, a device with a fault that no claim holds is left out, one that
// a claim holds stays, and it is said once.
func TestTaintsDropped(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	n.GatesOff(drivertest.GateTaints)
	o := offers(t, n, policyOf(t))
	o.taints(dev0, "")
	c := drivertest.Claim(1, dev1)
	o.holds(c)
	for _, ibdev := range []string{"mlx5_0", "mlx5_1"} {
		rdmatest.SetPort(t, n.Root, ibdev, "1: DOWN", "3: Disabled")
		o.looks(ibdev)
	}
	o.taints(dev0, "not published")
	o.WaitLog(`featureGate="DRADeviceTaints"`)
	o.taints(dev1, "")
	o.ends(c)
	o.taints(dev1, "not published")
	for _, ibdev := range []string{"mlx5_0", "mlx5_1"} {
		rdmatest.SetPort(t, n.Root, ibdev, "4: ACTIVE", "5: LinkUp")
		o.looks(ibdev)
	}
	o.taints(dev0, "")
	o.taints(dev1, "")
	test.Eq(t, 1, o.lacks(), test.Sprint("it was said"))
}

// TestNoneRefused: an API server that does not know the effect None is given the other taints.
func TestNoneRefused(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	n.GatesOff(drivertest.NoneEffect)
	rdmatest.SetPort(t, n.Root, "mlx5_0", "1: DOWN", "3: Disabled")
	o := offers(t, n, policyOf(t, "taints: {port-down: None}"))
	o.WaitLog("device taints of effect None")
	o.taints(dev0, "")
	o.uses(policyOf(t, "taints: {port-down: NoSchedule}"))
	o.taints(dev0, "rdma.dev/port-down:NoSchedule")
}
