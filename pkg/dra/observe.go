package dra

import (
	"context"
	"io/fs"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// observer keeps the health of the node's HCAs.
type observer struct {
	model      *health.Model // of followLoop, once it runs
	down, up   time.Duration // unless the policy says otherwise
	thresholds []health.Threshold
	readings   map[health.PortID]health.Reading // of the last poll, of followLoop

	mu      sync.Mutex
	view    *health.View
	changed chan struct{} // closed at the next change
}

func newObserver(cfg health.Config) *observer {
	model := health.New(cfg)
	return &observer{
		model: model, down: cfg.Down, up: cfg.Up, thresholds: cfg.Thresholds,
		view: model.View(), changed: make(chan struct{}),
	}
}

// latest returns the health of all HCAs, and what is closed when it changes.
func (o *observer) latest() (*health.View, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.view, o.changed
}

// replace puts a view in place of the last one, and reports whether it says
// something else.
func (o *observer) replace(view *health.View) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.view
	o.view = view
	if before.Same(view) {
		return false
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return true
}

// due returns how long it takes until another look at HCAs in doubt, at most the
// given time.
func (o *observer) due(now time.Time, most time.Duration) time.Duration {
	if at, ok := o.model.Next(); ok {
		return min(most, max(0, at.Sub(now)))
	}
	return most
}

// judge judges the health of the host's HCAs by the last snapshot, and reports
// whether it changed. A change is told to the kubelet, and said in events.
func (d *Driver) judge(ctx context.Context, now time.Time) bool {
	plans := d.plans(ctx)
	held := heldHCAs(plans)
	snap := d.host.snapshot()
	d.health.model.SetTimes(d.policy.Load().HealthTimes(d.health.down, d.health.up))
	transitions := d.health.model.Observe(health.Observation{
		Snapshot: snap, Held: held, Unbound: d.host.unbound(snap, held), Readings: d.health.readings,
	}, now)
	for _, t := range transitions {
		klog.FromContext(ctx).Info("Health of an RDMA device", "device", t.Device, "ibdev", t.IBDev, "reason", t.Reason(), "detail", t.Message)
	}
	d.recorder.RecordHealth(len(d.health.model.Pending()), transitions, plans)
	d.cfg.Metrics.Transitions(transitions)
	return d.health.replace(d.health.model.View())
}

// unbound returns those of the named HCAs that are not there while the PCI function
// that carried them is.
func (h *host) unbound(snap *rdma.Snapshot, names []string) []string {
	there := make(map[string]bool, len(snap.HCAs))
	for i := range snap.HCAs {
		there[snap.HCAs[i].Name] = true
	}
	var out []string
	for _, name := range names {
		if there[name] {
			continue
		}
		seen, ok := h.known(name)
		if !ok || seen.Identity.PCI == "" || seen.Identity.SF != nil {
			continue
		}
		if _, err := fs.Stat(h.sys, "bus/pci/devices/"+seen.Identity.PCI); err == nil {
			out = append(out, name)
		}
	}
	return out
}

// taints returns the taints of HCAs by name, under the policy in force.
func (d *Driver) taints() map[string][]resourceapi.DeviceTaint {
	policy := health.Policy{Effects: d.policy.Load().TaintEffects(), Informational: !d.missing.has(gateNone)}
	view, _ := d.health.latest()
	out := map[string][]resourceapi.DeviceTaint{}
	for _, name := range view.Faulty() {
		if taints := view.Taints(name, policy); taints != nil {
			out[name] = taints
		}
	}
	return out
}
