package node

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
)

// judge has the data for judging the health of the node's HCAs.
type judge struct {
	model    *health.Model // used by Start, then only by Run
	times    atomic.Pointer[Times]
	expected atomic.Pointer[map[string]health.Expected] // nil before the first decision of the policy
	readings map[health.PortID]health.Reading           // of the last poll; only Run uses it
	pcie     map[string]health.PCIe                     // the same of the PCIe links
	firmware map[string][]health.Reporter               // the same of the firmware
	asker    asker
}

// Times returns the times and limits of the policy. Its argument are the driver's own.
type Times func(health.Config) health.Config

func newJudge(cfg health.Config) *judge {
	return &judge{model: health.New(cfg)}
}

// SetTimes sets the times for judging the health of HCAs. They apply at once.
func (n *Node) SetTimes(t Times) {
	if n.health.times.Swap(&t) != nil { // the first call comes before Start
		n.changed.Set()
	}
}

// Expect sets what the policy expects of HCAs, by name. It applies at once. A policy without any expectation, as at the
// start of most drivers, changes nothing that cannot wait for the next look.
func (n *Node) Expect(expected map[string]health.Expected) {
	before := n.health.expected.Load()
	if before != nil && maps.Equal(*before, expected) {
		return
	}
	n.health.expected.Store(&expected)
	for _, e := range expected {
		if before != nil || e != (health.Expected{}) {
			n.changed.Set()
			return
		}
	}
}

// due returns the time until the next look at HCAs in doubt, at most the given time.
func (j *judge) due(now time.Time, most time.Duration) time.Duration {
	if at, ok := j.model.Next(); ok {
		return min(most, max(0, at.Sub(now)))
	}
	return most
}

// judge judges the health of the newest Host, makes a View of both with the leaf switches, and reports whether one of
// these changed. Only Start and Run call it. What the next driver must know of it is written by the caller after the
// listener was called: a disk that hangs delays no taint.
func (n *Node) judge(ctx context.Context, now time.Time) bool {
	last, model := n.Judged(), n.health.model
	next := View{Host: n.Host(), Plans: plansOf(ctx, n.cfg.Store)}
	if times := n.health.times.Load(); times != nil {
		model.Configure((*times)(n.cfg.Health))
	}
	held := next.held()
	next.Leaves = n.leaves.view(next)
	o := health.Observation{
		Snapshot: next.Snapshot, Held: held, InPod: next.inPod, Unbound: next.unbound(), Readings: n.health.readings,
		PCIe: n.health.pcie, Firmware: n.health.firmware, Wiring: n.leaves.wiring(),
	}
	if expected := n.health.expected.Load(); expected != nil {
		o.Expected = *expected
	}
	transitions := model.Observe(o, now)
	next.Health = model.View() // the same health is of a later time
	changed := !last.Health.Same(next.Health)
	next.outdated = last.outdated
	if changed {
		next.outdated = make(chan struct{})
	}
	n.judged.Store(&View{Host: next.Host, Health: next.Health, Leaves: next.Leaves, outdated: next.outdated})
	if changed {
		close(last.outdated)
	}
	for _, t := range transitions {
		klog.FromContext(ctx).Info("Health of an RDMA device",
			"device", t.Device, "ibdev", t.IBDev, "reason", t.Reason(), "detail", t.Message)
	}
	n.listener.Health(ctx, len(model.Pending()), transitions, next.Plans)
	return changed || !last.Leaves.Same(next.Leaves)
}
