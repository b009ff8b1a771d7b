package report_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/report"
)

const vf0 = "pci-0000-3b-00-4" // of the fixture machine roce-sriov: mlx5_4

// reporting is the Reporter of a node, by the clock of the test.
type reporting struct {
	report.Reporter

	t     *testing.T
	node  *drivertest.Node
	host  *node.Node
	store *claimstore.Store
	clock *clocktesting.FakeClock
	stop  func() // waits for its end
}

// newReporting runs the Reporter of a node until stop or the end of the test. An option may change its configuration.
func newReporting(t *testing.T, n *drivertest.Node, options ...func(*report.Config)) *reporting {
	t.Helper()
	r := &reporting{t: t, node: n, clock: clocktesting.NewFakeClock(time.Now())}
	var err error
	r.store, err = claimstore.Open(n.StateDir, claimstore.Boot{ID: "boot"})
	must.NoError(t, err)
	r.host, err = node.Open(node.Config{
		HostRoot: n.Root, Store: r.store, Health: health.DefaultConfig(), Now: time.Now,
	})
	must.NoError(t, err)
	cfg := report.Config{
		Client: n.Client(t), Node: r.host, NodeName: drivertest.NodeName, ClaimEvents: true, Memory: r.store.Memory(),
		Budget: budget.New(budget.Default(), r.clock, rand.Float64), Clock: r.clock, Now: time.Now,
		OnlyPod:  func(context.Context, corev1.ObjectReference) *corev1.ObjectReference { return nil },
		Attached: func(*plan.Plan, plan.Device) *resourceapi.NetworkDeviceData { return nil },
		Yield:    func(context.Context) {},
	}
	for _, o := range options {
		o(&cfg)
	}
	r.Reporter = report.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Recorder.Run(ctx) })
	running.Go(func() { r.ClaimStatus.Run(ctx) })
	r.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

// prepared records a claim as prepared, and returns its plan.
func (r *reporting) prepared(c *resourceapi.ResourceClaim) *plan.Plan {
	r.t.Helper()
	r.node.AddClaim(c)
	p, err := plan.New(c, plan.Facts{Pool: drivertest.NodeName, Site: plan.DefaultSite()})
	must.NoError(r.t, err)
	must.NoError(r.t, r.store.Claim(r.t.Context(), p))
	r.Prepared(c)
	return p
}

// starts reports a container of a claim that has the host's network.
func (r *reporting) starts(p *plan.Plan, change func(*record.Report)) {
	hooked := record.Report{ID: "3f0c", Container: "worker", Outcome: record.Raised, HostNetwork: new(true)}
	change(&hooked)
	r.ContainerReported(hooked, p)
}

// notes returns how often the status page has an event of a reason.
func (r *reporting) notes(reason event.Reason) (count int) {
	for _, e := range r.History() {
		if e.Reason == reason.Reason {
			count += e.Count
		}
	}
	return count
}

// TestEventsOfContainers: what the hook reports of a container stands on its claim and on the
// pods that use it, or on the one pod that the report names. The status page has it too.
func TestEventsOfContainers(t *testing.T) {
	r := newReporting(t, drivertest.NewNode(t, "roce-sriov"))
	p := r.prepared(drivertest.UsedBy(drivertest.Claim(1, vf0), "a", "b"))
	r.starts(p, func(*record.Report) {})
	r.starts(p, func(hooked *record.Report) {
		hooked.PodUID, hooked.HostNetwork = "uid-a", new(false)
		hooked.Outcome, hooked.Message = record.Clamped, "need CAP_SYS_RESOURCE"
	})
	r.starts(p, func(hooked *record.Report) {
		hooked.Limits = []record.DeviceLimit{{Device: "mlx5_4", Outcome: record.Unenforced, Message: "no controller"},
			{Device: "mlx5_5", Outcome: record.Limited}}
	})
	r.node.ToldOf(t,
		"ResourceClaim/claim-1 Warning RDMAMemlockNotRaised", "Pod/a Warning RDMAMemlockNotRaised",
		"ResourceClaim/claim-1 Normal RDMANetdevMissing", "Pod/a Normal RDMANetdevMissing",
		"ResourceClaim/claim-1 Warning RDMALimitNotSet", "Pod/a Warning RDMALimitNotSet", "Pod/b Warning RDMALimitNotSet")
	for reason, part := range map[event.Reason]string{
		event.MemlockNotRaised: "container worker has less locked memory than claim claim-1 asks for: " +
			"need CAP_SYS_RESOURCE",
		event.NetdevMissing: "container worker has devices of claim claim-1, " +
			"but none of their network interfaces: ens1f0v2 stayed on the host",
		event.LimitNotSet: "container worker is not limited on mlx5_4 as claim claim-1 says: no controller",
	} {
		test.StrContains(t, r.node.EventMessage(t, "Pod", reason.Reason), part, test.Sprint(reason))
		test.Eq(t, 1, r.notes(reason), test.Sprintf("%s on the status page", reason.Reason))
	}
}

// TestEventsIgnored: a site that has the hook ignore what it may not do wants no events of it; and
// an interface in the pod, or a network that is the host's, is nothing to tell.
func TestEventsIgnored(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	r := newReporting(t, n, func(c *report.Config) { c.LimitsIgnored = true })
	p := r.prepared(drivertest.UsedBy(drivertest.Claim(1, vf0), "a"))
	moved := r.prepared(drivertest.UsedBy(drivertest.Claim(2, "pci-0000-3b-00-2"), "b"))
	n.Become(t, drivertest.Without(t, "roce-sriov", "net/ens1f0v0"))
	must.NoError(t, r.host.Rescan())
	r.starts(p, func(hooked *record.Report) { hooked.Outcome = record.Denied })
	r.starts(moved, func(hooked *record.Report) { hooked.HostNetwork = new(false) })
	r.starts(p, func(hooked *record.Report) { hooked.ID, hooked.HostNetwork = "last", new(false) })
	n.ToldOf(t, "ResourceClaim/claim-1 Normal RDMANetdevMissing", "Pod/a Normal RDMANetdevMissing")
}

// TestEventOfMissingNetdev: a pod with its own network and without an interface of its HCA is told once, however often
// its containers start: of RoCE and iWARP, not of protocols that have addresses of their own.
func TestEventOfMissingNetdev(t *testing.T) {
	for _, tt := range []struct{ machine, device, netdev string }{
		{"irdma-e810", "pci-0000-18-00-0", "enp24s0f0"}, {"irdma-e810", "pci-0000-18-00-1", "enp24s0f1"},
		{"dgx-h100-ib", "pci-0000-18-00-0", ""},
	} {
		t.Run(tt.machine+" "+tt.device, func(t *testing.T) {
			r := newReporting(t, drivertest.NewNode(t, tt.machine))
			p := r.prepared(drivertest.UsedBy(drivertest.Claim(1, tt.device), "a", "b"))
			for id, pod := range []string{"uid-a", "uid-a", "uid-b"} {
				r.starts(p, func(hooked *record.Report) {
					hooked.ID, hooked.PodUID, hooked.HostNetwork = fmt.Sprint(id), pod, new(false)
				})
			}
			// The events are sent in their order, so this one is the last.
			r.starts(p, func(hooked *record.Report) { hooked.PodUID, hooked.Outcome = "uid-b", record.Clamped })
			want := []string{"ResourceClaim/claim-1 Warning RDMAMemlockNotRaised", "Pod/b Warning RDMAMemlockNotRaised"}
			if tt.netdev != "" {
				want = append(want, "ResourceClaim/claim-1 Normal RDMANetdevMissing",
					"Pod/a Normal RDMANetdevMissing", "Pod/b Normal RDMANetdevMissing")
			}
			r.node.ToldOf(t, want...)
			test.Eq(t, len(want)/5*2, r.notes(event.NetdevMissing), test.Sprint("told"))
			if tt.netdev != "" {
				test.StrContains(t, r.node.EventMessage(t, "Pod", event.NetdevMissing.Reason), tt.netdev+" stayed on the host")
			}
		})
	}
}

// TestEventsOfUnusable: a container that cannot use an HCA makes one event with the remedy for each kind of fault. The
// other pods of the workload count it up, and a limit that was not raised has an event of its own.
func TestEventsOfUnusable(t *testing.T) {
	r := newReporting(t, drivertest.NewNode(t, "roce-sriov"))
	p := r.prepared(drivertest.UsedBy(drivertest.Claim(1, vf0), "a"))
	other := r.prepared(drivertest.UsedBy(drivertest.Claim(2, "pci-0000-3b-00-3"), "b"))
	checks := []finding.Finding{
		{ID: record.Provider.ID, Subjects: []string{"mlx5_4"}, Severity: finding.Warning,
			Message: "no provider mlx5", Remedy: "install it"},
		{ID: record.Permission.ID, Subjects: []string{"mlx5_4"}, Severity: finding.OK},
		{ID: record.Variables.ID, Severity: finding.NotSeen, Message: "unknown"},
		{ID: record.Memlock.ID, Severity: finding.Warning, Message: "need CAP_SYS_RESOURCE"},
	}
	unusable := func(id, pod string) func(*record.Report) {
		return func(hooked *record.Report) {
			hooked.ID, hooked.PodUID, hooked.Checks = id, pod, checks
			hooked.Outcome, hooked.Message = record.Clamped, "need CAP_SYS_RESOURCE"
		}
	}
	r.starts(p, unusable("1", "uid-a"))
	want := []string{
		"ResourceClaim/claim-1 Warning RDMANotUsable", "Pod/a Warning RDMANotUsable",
		"ResourceClaim/claim-1 Warning RDMAMemlockNotRaised", "Pod/a Warning RDMAMemlockNotRaised",
	}
	r.node.ToldOf(t, want...)
	r.starts(other, unusable("2", "uid-b"))
	want = append(want, "ResourceClaim/claim-2 Warning RDMAMemlockNotRaised", "Pod/b Warning RDMAMemlockNotRaised")
	r.node.ToldOf(t, want...)
	drivertest.Eventually(t, func() error {
		for _, e := range r.node.Events() {
			if e.Reason == event.NotUsable.Reason && e.InvolvedObject.Kind == "Pod" && e.Count == 2 {
				return nil
			}
		}
		return fmt.Errorf("no event of two pods: %v", r.node.Events())
	})
	const text = "container worker cannot use mlx5_4 of claim claim-1: no provider mlx5. Remedy: install it"
	test.Eq(t, text, r.node.EventMessage(t, "Pod", event.NotUsable.Reason), test.Sprint("the event"))
}

// TestUsableRestart: a container is checked once, when it starts, so what was found outlives the driver: the condition
// of a claim has it after a later container of the claim was well, and after the status was lost. It ends with the
// claim.
func TestUsableRestart(t *testing.T) {
	n := drivertest.NewNode(t, "roce-sriov")
	c := drivertest.UsedBy(drivertest.Claim(1, vf0), "a")
	withStatus := func(c *report.Config) { c.ClaimStatus = true }
	r := newReporting(t, n, withStatus)
	p := r.prepared(c)
	starts := func(id, container string, result finding.Severity) {
		r.starts(p, func(hooked *record.Report) {
			hooked.ID, hooked.PodUID, hooked.Container = id, "uid-a", container
			hooked.Checks = []finding.Finding{{ID: record.Provider.ID, Subjects: []string{"mlx5_4"}, Severity: result,
				Message: "the check of " + container}}
		})
	}
	wants := func(want string) {
		t.Helper()
		drivertest.Eventually(t, func() error {
			got := "none"
			for _, s := range n.DeviceStatus(c) {
				if u := meta.FindStatusCondition(s.Conditions, "Usable"); u != nil {
					got = string(u.Status) + " " + u.Message
				}
			}
			if got != want {
				r.clock.Step(time.Second)
				return fmt.Errorf("the condition Usable is %q, want %q", got, want)
			}
			return nil
		})
	}
	const bad = "False container train: provider of mlx5_4: the check of train"
	starts("1", "train", finding.Warning)
	starts("2", "beside", finding.NotSeen)
	wants(bad)

	r.stop()
	n.LoseStatus(c)
	r = newReporting(t, n, withStatus)
	wants(bad)

	r.stop()
	r = newReporting(t, n, withStatus)
	starts("3", "beside", finding.OK)
	starts("4", "beside", finding.Warning)
	wants("False container beside: provider of mlx5_4: the check of beside; " + strings.TrimPrefix(bad, "False "))

	must.NoError(t, r.store.Remove(p.UID))
	r.Ended(p.UID)
	r.stop() // what changed is stored at once then
	text, err := os.ReadFile(filepath.Join(n.StateDir, "checks.json"))
	test.True(t, (err == nil || errors.Is(err, os.ErrNotExist)) && !strings.Contains(string(text), "train"),
		test.Sprintf("after the claim, the driver keeps %s, %v", text, err))
}
