package dra_test

import (
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestClockIsSet: whoever sets the node's clock by an hour, ahead or back, neither adds nor takes a taint,
// and no slice is written. A taint that comes or goes afterwards does so in its time.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	var clock drivertest.Clock
	events := make(chan watch.Signal)
	cfg := config(n)
	quick(&cfg)
	cfg.SetEvents(events)
	cfg.SetClock(clock.Now)
	driven, err := dra.New(cfg, n.Client(t))
	must.NoError(t, err)
	run(t, n, driven)
	drivertest.WaitTaints(t, n, dev0, "")
	look := func() {
		for range 2 { // the second is taken when the first has been judged
			events <- watch.Signal{Changes: rdma.Changes{All: true}}
		}
	}
	down := func(ibdev string) { portDown(t, n, ibdev); events <- of(ibdev) }
	down("mlx5_0")
	drivertest.WaitTaints(t, n, dev0, "rdma.dev/port-down:NoSchedule")
	waitHealth(t, n, dev0, "mlx5_0: port 1 is DOWN")
	since, writes := n.LastSliceWrite(), n.Count(drivertest.UpdateSlice)
	for _, by := range []time.Duration{time.Hour, -2 * time.Hour, 24 * time.Hour, -23 * time.Hour} {
		clock.Jump(by)
		look()
		test.Eq(t, "rdma.dev/port-down:NoSchedule", drivertest.Taints(n, dev0),
			test.Sprintf("after a jump by %v the taints", by))
		waitHealth(t, n, dev0, "mlx5_0: port 1 is DOWN") // and not that it was long ago
		waitHealth(t, n, dev1, "")
	}
	got := n.Count(drivertest.UpdateSlice) - writes
	test.True(t, got == 0 && n.LastSliceWrite() == since,
		test.Sprintf("%d slices were written because of the clock", got))
	clock.Jump(-time.Hour)
	down("mlx5_1")
	drivertest.WaitTaints(t, n, dev1, "rdma.dev/port-down:NoSchedule")
	clock.Jump(2 * time.Hour)
	portUp(t, n, "mlx5_1")
	events <- of("mlx5_1")
	drivertest.WaitTaints(t, n, dev1, "")
	test.Eq(t, "rdma.dev/port-down:NoSchedule", drivertest.Taints(n, dev0), test.Sprint("the other taints"))
}

// waitHealth waits until the kubelet is told a message, or that all is well.
func waitHealth(t *testing.T, n *drivertest.Node, device, message string) {
	t.Helper()
	want := healthpb.HealthStatus_HEALTHY
	if message != "" {
		want = healthpb.HealthStatus_UNHEALTHY
	}
	drivertest.Eventually(t, func() error { return reported(t, n, device, want, message) })
}
