package dra_test

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
)

// The devices of the fixture machine hgx-h100, in order of their ibdev names.
const (
	dev0 = "pci-0000-19-00-0" // mlx5_0, uverbs0
	dev1 = "pci-0000-29-00-0" // mlx5_1, uverbs1
)

// TestAPICalls: one GET for each claim, nothing written, and no limit of the
// client's own: 64 claims at 5 a second would take over 10 s.
func TestAPICalls(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n)
	d.WaitLog("Publishing ResourceSlices")
	drivertest.Eventually(t, func() error { return drivertest.Published(n) })
	const claims = 64
	for i := range claims {
		n.AddClaim(drivertest.Monitor(i, dev0))
	}
	gets, writes := n.Count(drivertest.GetClaim), n.Writes()
	for i := range claims {
		prepare(t, n, drivertest.Monitor(i, dev0))
	}
	test.Eq(t, claims, n.Count(drivertest.GetClaim)-gets, test.Sprint("claims took"))
	for i := range claims {
		unprepare(t, n, drivertest.Monitor(i, dev0))
	}
	test.Eq(t, claims, n.Count(drivertest.GetClaim)-gets, test.Sprint("Unprepare asked for claims"))
	got := n.Writes() - writes
	test.Eq(t, 0, got, test.Sprintf("the API server was written to %d times: %v", got, n.Requests()))
}
