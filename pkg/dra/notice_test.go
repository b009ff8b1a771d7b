package dra_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
)

func withEvents(c *dra.Config) { c.ClaimEvents = true }

func leaveReport(t *testing.T, dir string, c *resourceapi.ResourceClaim, change func(*record.Report)) {
	t.Helper()
	want := args.Unlimited
	r := record.Report{
		ReportVersion: record.Version, ID: "3f0c", Container: "worker", Claim: string(c.UID), Want: &want,
		Outcome: record.Raised, HostNetwork: new(true),
	}
	change(&r)
	must.NoError(t, hook.WriteReport(dir, r))
}

// TestEventsOfFailures: a claim that cannot be prepared says why, and again is one event; nobody
// waits for an API server that takes no events.
func TestEventsOfFailures(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	release := n.Hold(drivertest.CreateEvent)
	start(t, n, withEvents)
	c := drivertest.WithParameters(drivertest.UsedBy(drivertest.Claim(1, dev0), "a"), `"memlok": "1Gi"`)
	good := drivertest.Claim(2, dev1)
	n.AddClaim(c, good)
	refused(t, n, c, "memlok")
	prepare(t, n, good)
	release()
	n.ToldOf(t, "ResourceClaim/claim-1 Warning RDMAPrepareFailed")
	test.StrContains(t, n.EventMessage(t, "ResourceClaim", event.PrepareFailed.Reason), "memlok", test.Sprint("message"))
	for again := range 2 { // one by one: what waits at the same time is one event
		refused(t, n, c, "memlok")
		drivertest.Eventually(t, func() error {
			if n.Count(drivertest.PatchEvent) < again+1 {
				return fmt.Errorf("it was not counted")
			}
			return nil
		})
	}
	n.Fail(drivertest.CreateEvent, http.StatusForbidden)
	other := drivertest.WithParameters(drivertest.Claim(3, dev0), `"memlok": "1Gi"`)
	n.AddClaim(other)
	refused(t, n, other, "memlok")
	unprepare(t, n, good)
}

// TestEventsOfHealth: who uses an HCA hears of its link, others do not.
func TestEventsOfHealth(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	events := make(chan watch.Signal)
	startHearing(t, n, events, quick, withEvents)
	drivertest.WaitTaints(t, n, dev0, "")
	c, other := drivertest.UsedBy(drivertest.Claim(1, dev0), "a"), drivertest.UsedBy(drivertest.Claim(2, dev1), "b")
	n.AddClaim(c, other)
	prepare(t, n, c)
	prepare(t, n, other)
	portDown(t, n, "mlx5_0")
	events <- of("mlx5_0")
	n.ToldOf(t, "ResourceClaim/claim-1 Warning RDMAPortDown", "Pod/a Warning RDMAPortDown")
	portUp(t, n, "mlx5_0")
	events <- of("mlx5_0")
	n.ToldOf(t, "ResourceClaim/claim-1 Warning RDMAPortDown", "Pod/a Warning RDMAPortDown",
		"ResourceClaim/claim-1 Normal RDMAPortActive", "Pod/a Normal RDMAPortActive")
}
