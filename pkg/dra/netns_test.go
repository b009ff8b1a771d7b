package dra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// setNetnsMode gives the host another mode, Y for shared and N for exclusive.
func setNetnsMode(t *testing.T, n *drivertest.Node, mode string) {
	t.Helper()
	must.NoError(t, os.WriteFile(filepath.Join(n.Root, "sys/module/ib_core/parameters/netns_mode"), []byte(mode+"\n"), 0o644))
}

// TestNetnsModeChanges: in exclusive mode no claim gets a device anew, from the first
// moment on. What claims hold stays in the slice, and its pod can be restarted.
func TestNetnsModeChanges(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	events := make(chan watch.Signal)
	d := startHearing(t, n, events, quick)
	drivertest.WaitTaints(t, n, dev0, "")
	all := len(drivertest.PublishedDevices(n))
	held, late := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	n.AddClaim(held, late)
	prepare(t, n, held)

	setNetnsMode(t, n, "N")
	refused(t, n, late, "exclusive RDMA network namespace mode") // before anybody has told the driver
	events <- watch.Signal{Changes: rdma.Changes{Host: true}}
	drivertest.WaitTaints(t, n, dev0, "rdma.dev/draining:NoSchedule")
	got := drivertest.PublishedDevices(n)
	test.True(t, len(got) == 1 && *got[dev0].Attributes["netnsMode"].StringValue == "exclusive",
		test.Sprintf("published is %v, want the device of the claim", got))
	d.WaitLog("No RDMA device is offered to new claims")
	prepare(t, n, held)
	wantFiles(t, n, held)

	setNetnsMode(t, n, "Y")
	prepare(t, n, late)
	events <- watch.Signal{Changes: rdma.Changes{Host: true}}
	drivertest.WaitTaints(t, n, dev0, "")
	drivertest.Eventually(t, func() error {
		got := drivertest.PublishedDevices(n)
		if len(got) != all || *got[dev0].Attributes["netnsMode"].StringValue != "shared" {
			return fmt.Errorf("%d devices are published, want %d", len(got), all)
		}
		return nil
	})
}

// TestTimesOfPolicy: how long a fault must last is the site's, and follows its file.
func TestTimesOfPolicy(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	portDown(t, n, "mlx5_0")
	events := make(chan watch.Signal)
	m := newConfigMap(t, "health: {downAfter: 10m}", "publishInterval: 0s")
	startHearing(t, n, events, quick, m.with(t))
	drivertest.WaitTaints(t, n, dev0, "rdma.dev/port-down:NoSchedule") // bad at the first look counts at once
	portDown(t, n, "mlx5_1")
	events <- of("mlx5_1")
	m.set(t, "health: {downAfter: 0s, upAfter: 0s}", "publishInterval: 0s")
	drivertest.WaitTaints(t, n, dev1, "rdma.dev/port-down:NoSchedule")
	portUp(t, n, "mlx5_1")
	events <- of("mlx5_1")
	drivertest.WaitTaints(t, n, dev1, "")
}
