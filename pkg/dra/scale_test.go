package dra_test

import (
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/largehost"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestEventCostOfDriver: from the event to the taint that is published, the driver
// reads one HCA and writes one slice, however many there are.
func TestEventCostOfDriver(t *testing.T) {
	t.Parallel()
	reads := map[int]int{}
	for _, functions := range []int{8, 1016} {
		t.Run(fmt.Sprint(functions), func(t *testing.T) {
			writes := 0
			reads[functions], writes = eventCost(t, functions)
			t.Logf("%d operations on files, %d writes", reads[functions], writes)
			test.Eq(t, 1, writes, test.Sprint("an event costs"))
		})
	}
	test.LessEq(t, reads[8], reads[1016],
		test.Sprintf("an event costs %v operations on files, want the same few for any number of HCAs", reads))
}

// eventCost runs a driver and lets one of so many links fail.
func eventCost(t *testing.T, functions int) (reads, writes int) {
	t.Helper()
	n := drivertest.NewNode(t, "none")
	host := largehost.New(t, functions)
	events := make(chan watch.Signal)
	cfg := dra.Config{
		NodeName: drivertest.NodeName, HostRoot: n.Root, KubeletDir: n.Dir, StateDir: n.StateDir, CDIDir: n.CDIDir,
		Site: config(n).Site, Health: new(health.DefaultConfig()),
	}
	cfg.Health.Down = 0
	cfg.SetSys(host)
	cfg.SetEvents(events)
	d, err := dra.New(cfg, n.Client(t))
	must.NoError(t, err)
	drivertest.Run(t, d)
	drivertest.Eventually(t, func() error { return publishedWith(n, host.Last.Name, 0) })
	host.Down.Store(true)
	host.Reset()
	before := n.Count(drivertest.UpdateSlice)
	events <- watch.Signal{Changes: rdma.Changes{IBDevs: rdma.NamesOf(host.Last.IBDev)}}
	drivertest.Eventually(t, func() error { return publishedWith(n, host.Last.Name, 1) })
	return host.Operations(), n.Count(drivertest.UpdateSlice) - before
}

// publishedWith returns nil when an HCA is published with so many taints.
func publishedWith(n *drivertest.Node, name string, taints int) error {
	for _, s := range n.Slices() {
		for _, device := range s.Spec.Devices {
			if device.Name == name && len(device.Taints) == taints {
				return nil
			}
		}
	}
	return fmt.Errorf("%s is not published with %d taints", name, taints)
}
