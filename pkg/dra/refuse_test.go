package dra_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// TestRenumberingOfOthers: a Prepare that finds the cards in another order puts
// the specs of all prepared claims right, not only its own: a container of theirs
// that restarts would get another claim's device.
func TestRenumberingOfOthers(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	a, b := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	n.AddClaim(a, b)
	prepare(t, n, a)
	d.WaitLog("Publishing ResourceSlices")
	n.Become(t, drivertest.Swapped(t, "hgx-h100", "mlx5_0", "mlx5_1", "uverbs0", "uverbs1"))
	prepare(t, n, b)
	want := []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs1"}
	drivertest.Eventually(t, func() error {
		if got := drivertest.Nodes(drivertest.Spec(t, n.CDIDir, a)); !slices.Equal(got, want) {
			return fmt.Errorf("the first claim has nodes %v, want %v", got, want)
		}
		return nil
	})
}

// TestDriverReload: a device that is away for a moment is waited for.
func TestDriverReload(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	n.Become(t, drivertest.Without(t, "hgx-h100", "mlx5_0", "uverbs0", "umad0", "issm0"))
	gets := n.Count(drivertest.GetClaim)
	done := make(chan error, 1)
	go func() {
		response, err := n.Prepare(drivertest.Context(t), c)
		if err == nil {
			_, err = drivertest.Devices(response, c)
		}
		done <- err
	}()
	drivertest.Eventually(t, func() error {
		if n.Count(drivertest.GetClaim) == gets {
			return errNotAsked
		}
		return nil
	})
	n.Become(t, drivertest.Swapped(t, "hgx-h100"))
	test.NoError(t, <-done)
	wantFiles(t, n, c)
}
