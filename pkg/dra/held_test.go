package dra_test

import (
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/nriruntime"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
)

const podA = "aaaaaaaa-0000-4000-8000-000000000000"

// TestHeldWithoutCgroups: where no cgroup of a pod can be seen, the container runtime's list decides. A list without the
// driver's own pod is not complete: the runtime may be starting.
func TestHeldWithoutCgroups(t *testing.T) {
	runtime := nriruntime.New(t)
	runtime.Up()
	own := nri.Pod{Namespace: "kube-system", Name: "driver", UID: "dddddddd-0000-4000-8000-000000000000"}
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n, func(c *dra.Config) {
		c.NRISocket, c.PodUID, c.Hook.ReportDir = runtime.Socket, types.UID(own.UID), drivertest.TempDir(t)
	})
	d.WaitLog("Connected to NRI")
	test.Eq(t, "connected", d.Status(t.Context()).NRI)
	c, next := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA), drivertest.Claim(2, dev0)
	n.AddClaim(c, next)
	prepare(t, n, c)
	n.HideCgroups(t)
	n.RemoveClaim(c)
	refused(t, n, next, "no pod has a cgroup", "team-a/claim-1")
	wantFiles(t, n, c)
	must.NoError(t, runtime.Run(t.Context(), own))
	_, err := runtime.Create(t.Context(), own, "driver")
	must.NoError(t, err)
	prepare(t, n, next)
	wantFiles(t, n, next)
}
