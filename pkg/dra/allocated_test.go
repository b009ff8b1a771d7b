package dra_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestAllocatedDeviceVanishes: a device that goes while a claim holds it stays in its
// slice, but its claim's spec goes, as the number of its node may be another HCA's
// by the time a container restarts. The spec comes back with the device; when nobody
// holds the device any more, it leaves the slice.
func TestAllocatedDeviceVanishes(t *testing.T) {
	t.Parallel()
	n := drivertest.NewNode(t, "hgx-h100")
	start(t, n)
	drivertest.WaitPublished(t, n)
	c, other := drivertest.Claim(1, dev0), drivertest.Claim(2, dev1)
	n.AddClaim(c, other)
	prepare(t, n, c)
	prepare(t, n, other)

	n.Become(t, drivertest.Without(t, "hgx-h100", "mlx5_0", "uverbs0", "umad0", "issm0"))
	refused(t, n, c, dev0) // which makes the driver look again
	drivertest.Eventually(t, func() error { return absent(drivertest.SpecPath(n.CDIDir, c)) })
	test.True(t, offers(n.Slices(), dev0), test.Sprint("the allocated device left its slice"))
	_, err := os.Stat(drivertest.SpecPath(n.CDIDir, other))
	test.NoError(t, err, test.Sprint("the spec of a device that is there"))

	n.Become(t, drivertest.Swapped(t, "hgx-h100"))
	prepare(t, n, c)
	wantFiles(t, n, c, other)

	n.Become(t, drivertest.Without(t, "hgx-h100", "mlx5_0", "uverbs0", "umad0", "issm0"))
	refused(t, n, c, dev0)
	drivertest.Eventually(t, func() error { return absent(drivertest.SpecPath(n.CDIDir, c)) })
	unprepare(t, n, c)
	drivertest.Eventually(t, func() error {
		if offers(n.Slices(), dev0) {
			return fmt.Errorf("%s is still published", dev0)
		}
		return nil
	})
}

// TestRestoredLater: a spec that could not be restored is made after the next event, also if that changed nothing. Here
// a node in /dev is late: the kernel has announced it, and sysfs has it already.
func TestRestoredLater(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	events := make(chan watch.Signal)
	d := startHearing(t, n, events)
	c := drivertest.Claim(1, dev0)
	n.AddClaim(c)
	ids := prepare(t, n, c)
	later := drivertest.Swapped(t, "hgx-h100", "uverbs0", "uverbs9")
	n.Become(t, later)
	must.NoError(t, os.Remove(n.Node("uverbs9")))
	events <- watch.Signal{Changes: rdma.Changes{All: true}}
	d.WaitLog("Some CDI specs do not fit the host")
	d.WaitLog("Some CDI specs are not restored") // by the other one who tries: it has seen that the spec was removed
	test.NoError(t, absent(drivertest.SpecPath(n.CDIDir, c)))
	for range 10 { // each is followed by a try
		events <- watch.Signal{Changes: rdma.Changes{All: true}}
	}
	test.Eq(t, 1, strings.Count(d.Log.String(), "Some CDI specs do not fit the host"),
		test.Sprint("the same error was logged"))
	n.Become(t, later)
	events <- watch.Signal{Changes: rdma.Changes{All: true}}
	drivertest.Eventually(t, func() error { return drivertest.CheckSpecs(n.CDIDir, ids...) })
}

func absent(path string) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s is there", path)
	}
	return nil
}

// offers reports whether a device is published.
func offers(published []resourceapi.ResourceSlice, device string) bool {
	return slices.ContainsFunc(published, func(s resourceapi.ResourceSlice) bool {
		return slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == device })
	})
}
