package node

import (
	"context"
	"maps"
	"sync"
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

	mu      sync.Mutex
	changed chan struct{} // closed at the next change of health
}

// Times returns the times and limits of the policy. Its argument are the driver's own.
type Times func(health.Config) health.Config

func newJudge(cfg health.Config) *judge {
	return &judge{model: health.New(cfg), changed: make(chan struct{})}
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

// HealthChanged returns a channel that is closed when the health of an HCA changes.
func (n *Node) HealthChanged() <-chan struct{} {
	n.health.mu.Lock()
	defer n.health.mu.Unlock()
	return n.health.changed
}

// due returns the time until the next look at HCAs in doubt, at most the given time.
func (j *judge) due(now time.Time, most time.Duration) time.Duration {
	if at, ok := j.model.Next(); ok {
		return min(most, max(0, at.Sub(now)))
	}
	return most
}

// judge judges the health of the HCAs, and reports whether it changed. Only Start and Run call it.
func (n *Node) judge(ctx context.Context, now time.Time) bool {
	view, model := n.View(ctx), n.health.model
	if times := n.health.times.Load(); times != nil {
		model.Configure((*times)(n.cfg.Health))
	}
	o := health.Observation{
		Snapshot: view.Snapshot, Held: view.held(), Unbound: view.unbound(), Readings: n.health.readings,
		PCIe: n.health.pcie, Firmware: n.health.firmware,
	}
	if expected := n.health.expected.Load(); expected != nil {
		o.Expected = *expected
	}
	transitions := model.Observe(o, now)
	n.health.remember(ctx, n.cfg.Store.Memory())
	for _, t := range transitions {
		klog.FromContext(ctx).Info("Health of an RDMA device",
			"device", t.Device, "ibdev", t.IBDev, "reason", t.Reason(), "detail", t.Message)
	}
	n.listener.Health(ctx, len(model.Pending()), transitions, view.Plans)
	n.replace(func(h *Host) { h.Health = model.View() }) // the same health is of a later time
	if view.Health.Same(model.View()) {
		return false
	}
	n.health.mu.Lock()
	defer n.health.mu.Unlock()
	close(n.health.changed)
	n.health.changed = make(chan struct{})
	return true
}
