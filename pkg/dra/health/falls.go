package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// maxFalls bounds Config.Falls, and the incidents that are kept of a port.
const maxFalls = 100

// falls are the falls of one port within Config.FallWindow.
type falls struct {
	read      *uint64     // the kernel's count at the last reading; between two readings the same pointer
	counted   *uint64     // the count that the next one is compared with, nil for none
	moves     uint64      // Reading.Moves with it
	away      time.Time   // the last time at which a pod had the port's interface, or the driver had moved it
	incidents []time.Time // the first fall of each, the oldest first
	down      time.Time   // the last time at which the host's port was known to be down, or fell
}

// add records a fall, and reports whether it begins an incident. Config.Incident counts from the first fall, so that a
// link that never stays up is not one long incident.
func (f *falls) add(now time.Time, cfg *Config) bool {
	if n := len(f.incidents); n > 0 && now.Sub(f.incidents[n-1]) < cfg.Incident {
		return false
	}
	f.incidents = append(f.incidents, now)
	f.incidents = f.incidents[max(0, len(f.incidents)-maxFalls):]
	return true
}

// within returns the number of incidents, without those that are too old.
func (f *falls) within(now time.Time, cfg *Config) int {
	f.incidents = slices.DeleteFunc(f.incidents, func(at time.Time) bool { return now.Sub(at) > cfg.FallWindow })
	return len(f.incidents)
}

// fell reports whether the kernel's count rose between two readings of an interface that was the host's all the time. A
// move takes the link down (dev_change_net_namespace closes the interface), and so may the pod that has it. A lower
// count is of a driver that was loaded again, and says nothing.
func (f *falls) fell(r Reading, away bool, now time.Time) bool {
	fresh, moved := r.Falls != f.read, r.Moves != f.moves
	f.read, f.moves = r.Falls, r.Moves
	if away || moved {
		f.away = now
	}
	if away || moved && !fresh {
		f.counted = nil
	}
	if away || !fresh {
		return false
	}
	rose := !moved && f.counted != nil && r.Falls != nil && *r.Falls > *f.counted
	f.counted = r.Falls
	return rose
}

// judgeFalls judges how often a port fell. The kernel's count also has the falls between two observations. Without it,
// a fall is a port that was ACTIVE at the observation before. What a pod does to an interface that it has is no fall.
func (d *device) judgeFalls(before, h *rdma.HCA, p *rdma.Port, o *Observation, now time.Time, cfg *Config) judgement {
	flaps := probe{PortFlapping, p.Number}
	if isPart(h) { // it has the link of its card
		return judgement{flaps, unknown, ""}
	}
	f := d.falls[p.Number]
	if f == nil {
		f = &falls{}
		d.falls[p.Number] = f
	}
	r, away := o.Readings[PortID{h.Name, p.Number}], o.away(h, p)
	counts := f.counted != nil
	fell := f.fell(r, away, now)
	if !counts && r.Falls == nil && !f.unsettled(now, cfg) {
		fell = wasActive(before, p.Number) && p.State != rdma.PortActive && p.State != ""
	}
	if fell {
		d.unsaved = f.add(now, cfg) || d.unsaved
	}
	if !away && (fell || p.State != rdma.PortActive) {
		f.down = now
	}
	n := f.within(now, cfg)
	return judge(cfg.Falls > 0 && n >= min(cfg.Falls, maxFalls), PortFlapping, p.Number, fmt.Sprintf(
		"port %d fell %d times within %s, the last time at %s: clean or replace cable and transceiver, "+
			"or look at the other end", p.Number, n, span(cfg.FallWindow), f.last()))
}

// away reports whether the interface of an Ethernet port is not the host's now. Whoever has it may take the link down
// or slow it. An InfiniBand link does not depend on its interface.
func (o *Observation) away(h *rdma.HCA, p *rdma.Port) bool {
	if p.LinkLayer != rdma.LinkEthernet {
		return false
	}
	return p.Netdev == "" || o.InPod[h.Name] && o.Readings[PortID{h.Name, p.Number}].Falls == nil
}

// unsettled reports whether a pod has the interface of the port, or had it a moment ago.
func (f *falls) unsettled(now time.Time, cfg *Config) bool {
	return !f.away.IsZero() && now.Sub(f.away) < cfg.Sick
}

// last returns the time of the last incident, in UTC.
func (f *falls) last() string {
	if len(f.incidents) == 0 {
		return "an unknown time"
	}
	return f.incidents[len(f.incidents)-1].UTC().Format("15:04 UTC")
}

// wasActive reports whether a port of an HCA is ACTIVE.
func wasActive(h *rdma.HCA, port int) bool {
	if h == nil {
		return false
	}
	for p := range h.OwnPorts() {
		if p.Number == port {
			return p.State == rdma.PortActive
		}
	}
	return false
}

// settling reports whether the link was down a moment ago. A link that loses its partner ends, and begins, with errors.
func (f *falls) settling(now time.Time, cfg *Config) bool {
	return !f.down.IsZero() && now.Sub(f.down) < cfg.Sick
}
