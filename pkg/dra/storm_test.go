package dra_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// TestStorm: a link that fails and comes back a thousand times costs at most one
// write a second, of its own slice, and ends right.
func TestStorm(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "roce-sriov")
	events := make(chan watch.Signal)
	d := startHearing(t, n, events, func(c *dra.Config) {
		c.Health, c.Policy = new(health.DefaultConfig()), policy.Default()
		c.Health.Up = 2 * time.Second
	})
	waitTaints(t, n, hca0, "")
	before := n.Slices()
	updates, start := n.Count(drivertest.UpdateSlice), time.Now()
	for range 1000 {
		portDown(t, n, "mlx5_0")
		events <- of("mlx5_0")
		portUp(t, n, "mlx5_0")
		events <- of("mlx5_0")
	}
	waitTaints(t, n, hca0, "rdma.dev/port-down:NoSchedule")
	waitTaints(t, n, hca0, "")
	took := time.Since(start)
	d.stop()
	got := n.Count(drivertest.UpdateSlice) - updates
	t.Logf("1000 flaps in %v: %d writes", took, got)
	most := int(took/time.Second) + 2
	test.True(t, got <= most, test.Sprintf("%d writes in %v, want at most %d", got, took, most))
	test.NoError(t, othersUntouched(before, n.Slices(), hca0))
}

// othersUntouched checks that no slice was written but that of a device.
func othersUntouched(before, after []resourceapi.ResourceSlice, device string) error {
	if len(before) != len(after) {
		return fmt.Errorf("there are %d slices, and were %d", len(after), len(before))
	}
	for i := range before {
		if before[i].UID != after[i].UID {
			return fmt.Errorf("slice %s was made anew", after[i].Name)
		}
		if before[i].ResourceVersion != after[i].ResourceVersion && !offers(after[i:i+1], device) {
			return fmt.Errorf("slice %s was written, which has not %s", after[i].Name, device)
		}
	}
	return nil
}
