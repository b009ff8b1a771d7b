package dra_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/hook/args"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func withEvents(c *dra.Config) { c.ClaimEvents = true }

// usedBy adds pods to those that a claim is reserved for.
func usedBy(c *resourceapi.ResourceClaim, pods ...string) *resourceapi.ResourceClaim {
	for _, name := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID("uid-" + name)})
	}
	c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{APIGroup: "example.org", Resource: "jobs", Name: "no-pod", UID: "j"})
	return c
}

// toldOf waits for just these events about claims and pods, in any order: "Pod/a RDMAPortDown".
func toldOf(t *testing.T, n *drivertest.Node, want ...string) {
	t.Helper()
	slices.Sort(want)
	drivertest.Eventually(t, func() error {
		got := []string{}
		for _, e := range n.Events() {
			if e.InvolvedObject.Kind != "Node" {
				got = append(got, fmt.Sprintf("%s/%s %s %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Type, e.Reason))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("events (-want +got):\n%s", diff)
		}
		return nil
	})
}

// message waits for an event and returns what it says. That a request was counted does not say that its event is there.
func message(t testing.TB, n *drivertest.Node, kind, reason string) string {
	t.Helper()
	var e corev1.Event
	drivertest.Eventually(t, func() error {
		events := n.Events()
		i := slices.IndexFunc(events, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == kind && e.Reason == reason
		})
		if i < 0 {
			return fmt.Errorf("no event %s on a %s", reason, kind)
		}
		e = events[i]
		return nil
	})
	test.True(t, e.InvolvedObject.UID != "" && e.Source.Component == "rdma.dev" &&
		e.Source.Host == drivertest.NodeName, test.Sprintf("event %+v", e))
	test.True(t, kind == "Node" || e.Namespace == "team-a", test.Sprintf("event %+v", e))
	return e.Message
}

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

// TestEventsOfContainers: what the hook reports of a container stands on its claim and on the
// pods that use it, or on the one pod that the report names. The status page has it too.
func TestEventsOfContainers(t *testing.T) {
	t.Parallel()
	n, dir := drivertest.NewNode(t, "roce-sriov"), t.TempDir()
	d := start(t, n, withEvents, func(c *dra.Config) { c.Hook.ReportDir = dir })
	c := usedBy(drivertest.Claim(1, vf0), "a", "b")
	n.AddClaim(c)
	prepare(t, n, c)
	leaveReport(t, dir, c, func(r *record.Report) { r.ID = "good" })
	leaveReport(t, dir, c, func(r *record.Report) { r.ID, r.Claim = "other", "no-claim"; r.Outcome = record.Clamped })
	leaveReport(t, dir, c, func(r *record.Report) {
		r.PodUID, r.Outcome, r.Message, r.HostNetwork = "uid-a", record.Clamped, "need CAP_SYS_RESOURCE", new(false)
	})
	leaveReport(t, dir, c, func(r *record.Report) {
		r.Limits = []record.DeviceLimit{{Device: "mlx5_4", Outcome: record.Unenforced, Message: "no controller"},
			{Device: "mlx5_5", Outcome: record.Limited}}
	})
	toldOf(t, n,
		"ResourceClaim/claim-1 Warning RDMAMemlockNotRaised", "Pod/a Warning RDMAMemlockNotRaised",
		"ResourceClaim/claim-1 Normal RDMANetdevMissing", "Pod/a Normal RDMANetdevMissing",
		"ResourceClaim/claim-1 Warning RDMALimitNotSet", "Pod/a Warning RDMALimitNotSet", "Pod/b Warning RDMALimitNotSet")
	for reason, part := range map[string]string{
		event.MemlockNotRaised.Reason: "container worker has less locked memory than claim claim-1 asks for: " +
			"need CAP_SYS_RESOURCE",
		event.NetdevMissing.Reason: "container worker has devices of claim claim-1, " +
			"but none of their network interfaces: ens1f0v2 stayed on the host",
		event.LimitNotSet.Reason: "container worker is not limited on mlx5_4 as claim claim-1 says: no controller",
	} {
		test.StrContains(t, message(t, n, "Pod", reason), part, test.Sprint(reason))
		got := reasons(d.Status(t.Context()))
		test.True(t, slices.Contains(got, reason+" team-a/claim-1 x1"),
			test.Sprintf("the status page has %q, not %s", got, reason))
	}
}

// TestEventsIgnored: a site that has the hook ignore what it may not do wants no events of it; and
// an interface in the pod, or a network that is the host's, is nothing to tell.
func TestEventsIgnored(t *testing.T) {
	t.Parallel()
	n, dir := drivertest.NewNode(t, "roce-sriov"), t.TempDir()
	events := make(chan watch.Signal)
	startHearing(t, n, events, withEvents, func(c *dra.Config) { c.Hook.ReportDir, c.Hook.OnDenied = dir, "ignore" })
	c, moved := usedBy(drivertest.Claim(1, vf0), "a"), usedBy(drivertest.Claim(2, "pci-0000-3b-00-2"), "b")
	n.AddClaim(c, moved)
	prepare(t, n, c)
	prepare(t, n, moved)
	n.Become(t, drivertest.Without(t, "roce-sriov", "net/ens1f0v0"))
	events <- watch.Signal{Changes: rdma.Changes{All: true}}
	leaveReport(t, dir, c, func(r *record.Report) { r.Outcome = record.Denied })
	leaveReport(t, dir, moved, func(r *record.Report) { r.HostNetwork = new(false) })
	leaveReport(t, dir, c, func(r *record.Report) { r.ID, r.HostNetwork = "last", new(false) })
	toldOf(t, n, "ResourceClaim/claim-1 Normal RDMANetdevMissing", "Pod/a Normal RDMANetdevMissing")
}

// TestEventOfMissingNetdev: a pod with its own network and without an interface of its HCA is told once, however often
// its containers start: of RoCE and iWARP, not of protocols that have addresses of their own.
func TestEventOfMissingNetdev(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ machine, device, netdev string }{
		{"irdma-e810", "pci-0000-18-00-0", "enp24s0f0"}, {"irdma-e810", "pci-0000-18-00-1", "enp24s0f1"},
		{"dgx-h100-ib", "pci-0000-18-00-0", ""},
	} {
		t.Run(tt.machine+" "+tt.device, func(t *testing.T) {
			n, dir := drivertest.NewNode(t, tt.machine), t.TempDir()
			d := start(t, n, withEvents, func(c *dra.Config) { c.Hook.ReportDir = dir })
			c := usedBy(drivertest.Claim(1, tt.device), "a", "b")
			n.AddClaim(c)
			prepare(t, n, c)
			starts := func(id, pod string) {
				leaveReport(t, dir, c, func(r *record.Report) { r.ID, r.PodUID, r.HostNetwork = id, pod, new(false) })
			}
			for _, id := range []string{"1", "2"} {
				starts(id, "uid-a")
				drivertest.Eventually(t, func() error { return emptied(dir) })
			}
			starts("3", "uid-b")
			// The reports are taken in the order of their names, so this event is the last one.
			leaveReport(t, dir, c, func(r *record.Report) { r.ID, r.PodUID, r.Outcome = "4", "uid-b", record.Clamped })
			want := []string{"ResourceClaim/claim-1 Warning RDMAMemlockNotRaised", "Pod/b Warning RDMAMemlockNotRaised"}
			if tt.netdev != "" {
				want = append(want, "ResourceClaim/claim-1 Normal RDMANetdevMissing",
					"Pod/a Normal RDMANetdevMissing", "Pod/b Normal RDMANetdevMissing")
			}
			toldOf(t, n, want...)
			noted := 0
			for _, e := range d.Status(t.Context()).Events {
				if e.Reason == event.NetdevMissing.Reason {
					noted += e.Count
				}
			}
			test.Eq(t, len(want)/5*2, noted, test.Sprint("told"))
			if tt.netdev != "" && !strings.Contains(message(t, n, "Pod", event.NetdevMissing.Reason), tt.netdev+" stayed on the host") {
				t.Errorf("the event says %q", message(t, n, "Pod", event.NetdevMissing.Reason))
			}
		})
	}
}

// emptied returns an error while a directory has files.
func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s has %d files", dir, len(entries))
	}
	return err
}

// TestEventsOfFailures: a claim that cannot be prepared says why, and again is one event; nobody
// waits for an API server that takes no events.
func TestEventsOfFailures(t *testing.T) {
	n := drivertest.NewNode(t, "hgx-h100")
	release := n.Hold(drivertest.CreateEvent)
	start(t, n, withEvents)
	c := drivertest.WithParameters(usedBy(drivertest.Claim(1, dev0), "a"), `"memlok": "1Gi"`)
	good := drivertest.Claim(2, dev1)
	n.AddClaim(c, good)
	refused(t, n, c, "memlok")
	prepare(t, n, good)
	release()
	toldOf(t, n, "ResourceClaim/claim-1 Warning RDMAPrepareFailed")
	test.StrContains(t, message(t, n, "ResourceClaim", event.PrepareFailed.Reason), "memlok", test.Sprint("message"))
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
	waitTaints(t, n, dev0, "")
	c, other := usedBy(drivertest.Claim(1, dev0), "a"), usedBy(drivertest.Claim(2, dev1), "b")
	n.AddClaim(c, other)
	prepare(t, n, c)
	prepare(t, n, other)
	portDown(t, n, "mlx5_0")
	events <- of("mlx5_0")
	toldOf(t, n, "ResourceClaim/claim-1 Warning RDMAPortDown", "Pod/a Warning RDMAPortDown")
	portUp(t, n, "mlx5_0")
	events <- of("mlx5_0")
	toldOf(t, n, "ResourceClaim/claim-1 Warning RDMAPortDown", "Pod/a Warning RDMAPortDown",
		"ResourceClaim/claim-1 Normal RDMAPortActive", "Pod/a Normal RDMAPortActive")
}

// TestEventsOfUnusable: a container that cannot use an HCA makes one event with the remedy for each kind of fault. The
// other pods of the workload count it up, and a limit that was not raised has an event of its own.
func TestEventsOfUnusable(t *testing.T) {
	t.Parallel()
	n, dir := drivertest.NewNode(t, "roce-sriov"), t.TempDir()
	start(t, n, withEvents, func(c *dra.Config) { c.Hook.ReportDir = dir })
	c := usedBy(drivertest.Claim(1, vf0), "a")
	other := usedBy(drivertest.Claim(2, "pci-0000-3b-00-3"), "b")
	for _, claim := range []*resourceapi.ResourceClaim{c, other} {
		n.AddClaim(claim)
		prepare(t, n, claim)
	}
	checks := []finding.Finding{
		{ID: record.Provider.ID, Subjects: []string{"mlx5_4"}, Severity: finding.Warning,
			Message: "no provider mlx5", Remedy: "install it"},
		{ID: record.Permission.ID, Subjects: []string{"mlx5_4"}, Severity: finding.OK},
		{ID: record.Variables.ID, Severity: finding.NotSeen, Message: "unknown"},
		{ID: record.Memlock.ID, Severity: finding.Warning, Message: "need CAP_SYS_RESOURCE"},
	}
	unusable := func(id, pod string) func(*record.Report) {
		return func(r *record.Report) {
			r.ID, r.PodUID, r.Checks = id, pod, checks
			r.Outcome, r.Message = record.Clamped, "need CAP_SYS_RESOURCE"
		}
	}
	leaveReport(t, dir, c, unusable("1", "uid-a"))
	want := []string{
		"ResourceClaim/claim-1 Warning RDMANotUsable", "Pod/a Warning RDMANotUsable",
		"ResourceClaim/claim-1 Warning RDMAMemlockNotRaised", "Pod/a Warning RDMAMemlockNotRaised",
	}
	toldOf(t, n, want...)
	leaveReport(t, dir, other, unusable("2", "uid-b"))
	toldOf(t, n, append(want, "ResourceClaim/claim-2 Warning RDMAMemlockNotRaised", "Pod/b Warning RDMAMemlockNotRaised")...)
	drivertest.Eventually(t, func() error {
		for _, e := range n.Events() {
			if e.Reason == event.NotUsable.Reason && e.InvolvedObject.Kind == "Pod" && e.Count == 2 {
				return nil
			}
		}
		return fmt.Errorf("no event of two pods: %v", n.Events())
	})
	const text = "container worker cannot use mlx5_4 of claim claim-1: no provider mlx5. Remedy: install it"
	test.Eq(t, text, message(t, n, "Pod", event.NotUsable.Reason), test.Sprint("the event"))
}
