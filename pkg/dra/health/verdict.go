package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Verdict is the health of one HCA.
type Verdict struct {
	Device string // rdma.HCA.Name
	IBDev  string // the kernel's name at the last observation
	Card   string // the physical card: the PCI slot, or the device for software
	// Unused says that the ports are down, and that nobody has cabled them: by the policy, or by the kernel.
	Unused bool
	// Faults are the conditions that hold, in order of importance.
	Faults []Fault
}

// Fault is a condition that holds.
type Fault struct {
	Condition Condition
	// Since is when it began to hold.
	Since time.Time
	// Confirmed says that it holds for long enough to evict pods.
	Confirmed bool
	// Message is the fault and its remedy.
	Message string
	// Began is the message from when it began. It stays while the fault holds, also over a restart of the driver.
	Began string
}

// Status returns the health of the HCA for the kubelet. An HCA that can carry traffic is
// healthy.
func (v Verdict) Status() Status {
	status := Healthy
	for _, f := range v.Faults {
		switch consequenceOf(f.Condition).status {
		case Unhealthy:
			return Unhealthy
		case Unknown:
			status = Unknown
		}
	}
	return status
}

// Sick returns the faults that a claim with the HCA has to know: without them the HCA would be as good as it should be.
// It has neither a missing address, which most pods do not need, nor a missing port of several. For an absent HCA it
// returns false, because its health is not known.
func (v Verdict) Sick() (faults []Fault, known bool) {
	if v.has(DeviceGone) || v.has(DriverUnbound) {
		return nil, false
	}
	for _, f := range v.Faults {
		if f.Condition.Sick() {
			faults = append(faults, f)
		}
	}
	return faults, true
}

// Message returns all faults in at most 1024 bytes. It is empty without faults.
func (v Verdict) Message() string {
	var texts []string
	for _, f := range v.Faults {
		texts = append(texts, f.Message)
	}
	if texts == nil {
		return ""
	}
	return Cut(cmp.Or(v.IBDev, v.Device) + ": " + strings.Join(texts, "; "))
}

// verdict computes the verdict on a device.
func (d *device) verdict(cfg *Config) Verdict {
	v := Verdict{Device: d.name, IBDev: d.ibdev, Card: cmp.Or(d.card, d.name)}
	for _, c := range []Condition{DeviceGone, DriverUnbound} {
		if f, ok := d.fault(c, []int{0}, false, cfg); ok {
			f.Began = cmp.Or(d.announced[c], f.Message)
			v.Faults = []Fault{f} // the other conditions of an absent HCA are unknown
			return v
		}
	}
	for _, c := range consequences {
		if f, ok := d.sum(c.condition, cfg); ok {
			f.Began = cmp.Or(d.announced[f.Condition], f.Message)
			v.Faults = append(v.Faults, f)
		}
	}
	v.Unused = v.has(PortDown) && (d.standard.Unused || d.uncabled)
	return v
}

// sum derives the condition of the whole HCA from its ports. They share one uverbs node, and a
// program uses the ACTIVE ones. So an HCA is down if all of them are. One failed port of two
// keeps no claims away.
func (d *device) sum(c Condition, cfg *Config) (Fault, bool) {
	switch {
	case c.is(absent):
		return Fault{}, false
	case c.is(ofHCA):
		return d.fault(c, []int{0}, false, cfg)
	case c == Unmonitored:
		if f, ok := d.fault(c, []int{0}, false, cfg); ok {
			return f, true
		}
		return d.fault(c, d.ports, true, cfg)
	case c == PortDegraded:
		if _, all := d.fault(PortDown, d.ports, true, cfg); all || len(d.ports) < 2 {
			return Fault{}, false
		}
		f, ok := d.fault(PortDown, d.ports, false, cfg)
		f.Condition = PortDegraded
		return f, ok
	}
	return d.fault(c, d.ports, c.is(ofAllPorts), cfg)
}

// fault combines the states of several ports: the condition holds if it holds for all of them, or
// for one of them.
func (d *device) fault(c Condition, ports []int, ofAll bool, cfg *Config) (Fault, bool) {
	f := Fault{Condition: c}
	var notes []string
	for _, n := range ports {
		p := d.probes[probe{c, n}]
		if p == nil || !p.faulty {
			if ofAll {
				return Fault{}, false
			}
			continue
		}
		// For all: since the last one. For one: since the first.
		if f.Since.IsZero() || p.since.After(f.Since) == ofAll {
			f.Since = p.since
		}
		f.Confirmed = f.Confirmed || p.confirmed
		notes = append(notes, p.message(cfg))
	}
	f.Message = join(notes)
	return f, notes != nil
}

// message returns why a condition holds. It says so if the last signal was good.
func (p *debounce) message(cfg *Config) string {
	note := cmp.Or(p.note, resumedNote)
	if p.raw == good {
		note = fmt.Sprintf("good again, but not for %s yet; before: %s", span(p.clearAfter(cfg)), note)
	}
	if p.flapping {
		note += fmt.Sprintf(" (%d times within %s)", cfg.Flaps, span(cfg.FlapWindow))
	}
	return note
}
