package dra_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	corev1 "k8s.io/api/core/v1"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// quick makes what is held of health settle within a test's time.
func quick(c *dra.Config) {
	c.Health = new(health.DefaultConfig())
	c.Health.Down, c.Health.Up = 50*time.Millisecond, 100*time.Millisecond
	c.Health.Flaps = 0
}

func portDown(t testing.TB, n *drivertest.Node, ibdev string) {
	t.Helper()
	rdmatest.SetPort(t, n.Root, ibdev, "1: DOWN", "3: Disabled")
}

func portUp(t testing.TB, n *drivertest.Node, ibdev string) {
	t.Helper()
	rdmatest.SetPort(t, n.Root, ibdev, "4: ACTIVE", "5: LinkUp")
}

// of names one HCA as changed.
func of(ibdev string) watch.Signal {
	return watch.Signal{Changes: rdma.Changes{IBDevs: rdma.NamesOf(ibdev)}}
}

// reported returns nil when the kubelet is told a health of a device.
func reported(t testing.TB, n *drivertest.Node, device string, want healthpb.HealthStatus, message string) error {
	t.Helper()
	report, err := n.Health(drivertest.Context(t))
	if err != nil {
		return err
	}
	for _, d := range report {
		if d.Device.DeviceName == device && d.Health == want && strings.Contains(d.Message, message) {
			return nil
		}
	}
	return fmt.Errorf("%s is not reported as %v with %q: %v", device, want, message, report)
}

// TestTaint: a link that fails has a taint, is reported to the kubelet, and leaves an
// event; and all of it is over when the link is back. One slice is written each time.
func TestTaint(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	events := make(chan watch.Signal)
	start := startHearing(t, n, events, quick)
	drivertest.WaitTaints(t, n, dev0, "")
	writes := n.Count(drivertest.UpdateSlice)
	portDown(t, n, "mlx5_0")
	events <- of("mlx5_0")
	drivertest.WaitTaints(t, n, dev0, "rdma.dev/port-down:NoSchedule")
	test.NoError(t, reported(t, n, dev0, healthpb.HealthStatus_UNHEALTHY, "mlx5_0: port 1 is DOWN (Disabled)"))
	test.NoError(t, reported(t, n, dev1, healthpb.HealthStatus_HEALTHY, ""))
	portUp(t, n, "mlx5_0")
	events <- of("mlx5_0")
	drivertest.WaitTaints(t, n, dev0, "")
	test.NoError(t, reported(t, n, dev0, healthpb.HealthStatus_HEALTHY, ""))
	drivertest.Eventually(t, func() error {
		return recorded(n.Events(), corev1.EventTypeWarning+" RDMAPortDown", corev1.EventTypeNormal+" RDMAPortActive")
	})
	start.stop()
	// The rate of the port goes and comes with the link, so there may be two writes each.
	test.LessEq(t, 4, n.Count(drivertest.UpdateSlice)-writes,
		test.Sprint("writes for a link that failed and came back"))
}

// recorded returns nil when there are just these events, each about the node.
func recorded(events []corev1.Event, want ...string) error {
	var got []string
	for _, e := range events {
		if e.InvolvedObject.Kind != "Node" || e.InvolvedObject.Name != drivertest.NodeName || e.Namespace != "default" {
			return fmt.Errorf("event about %v in namespace %s", e.InvolvedObject, e.Namespace)
		}
		got = append(got, e.Type+" "+e.Reason)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("events are %q, want %q", got, want)
	}
	return nil
}

// TestAwayAtStart: a device that a claim holds and that is away when the driver starts
// stays in its slice, with the reason in a taint, and is the same device when it is
// back under other names.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	events := make(chan watch.Signal)
	d := startHearing(t, n, events, quick)
	drivertest.WaitTaints(t, n, dev0, "")
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	prepare(t, n, c)
	before := drivertest.PublishedDevices(n)
	d.stop()

	n.Become(t, drivertest.Without(t, "hgx-h100", "infiniband/mlx5_0", "uverbs0", "umad0", "issm0"))
	d = startHearing(t, n, events, quick)
	drivertest.WaitTaints(t, n, dev0, "rdma.dev/driver-unbound:NoSchedule")
	test.Eq(t, len(before), len(drivertest.PublishedDevices(n)), test.Sprint("devices are published"))
	test.NoError(t, reported(t, n, dev0, healthpb.HealthStatus_UNHEALTHY, "no driver makes an RDMA device of it"))

	n.Become(t, drivertest.Swapped(t, "hgx-h100", "mlx5_0", "mlx5_7", "uverbs0", "uverbs7"))
	events <- watch.Signal{Changes: rdma.Changes{All: true}}
	drivertest.WaitTaints(t, n, dev0, "")
	ids := prepare(t, n, c)
	test.Len(t, 1, ids, test.Sprintf("the claim has %v", ids))
	d.stop()
}

// TestFlapsAreRemembered: a driver that starts takes over the taints of the one before.
func TestFlapsAreRemembered(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	slow := func(c *dra.Config) { quick(c); c.Health.Up = time.Hour }
	events := make(chan watch.Signal)
	portDown(t, n, "mlx5_0")
	d := startHearing(t, n, events, slow)
	drivertest.WaitTaints(t, n, dev0, "rdma.dev/port-down:NoSchedule")
	d.stop()
	portUp(t, n, "mlx5_0")
	d = startHearing(t, n, events, slow)
	d.WaitLog("Publishing ResourceSlices")
	drivertest.WaitTaints(t, n, dev0, "rdma.dev/port-down:NoSchedule")
	test.NoError(t, reported(t, n, dev0, healthpb.HealthStatus_UNHEALTHY, "good again"))
}
