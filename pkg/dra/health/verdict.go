package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Verdict is what is held of one HCA.
type Verdict struct {
	Device string // rdma.HCA.Name
	IBDev  string // the kernel's name, as last seen
	// Faults are the conditions that hold, the one that says most first.
	Faults []Fault
	// Ports are its own ports by number, as last seen.
	Ports []Port
}

// Fault is a condition that holds.
type Fault struct {
	Condition Condition
	// Since is when it was found to hold.
	Since time.Time
	// Confirmed says that it was seen for long enough to act on.
	Confirmed bool
	// Message says what is wrong and what to do.
	Message string
}

// Port is what is held of one port.
type Port struct {
	Number int
	Down   bool // it is not ACTIVE, or was not long enough
	Errors bool // an error counter rises too fast
	Since  time.Time
}

// Status is the health of the HCA in the kubelet's words: one that can carry traffic
// is healthy.
func (v Verdict) Status() Status {
	status := Healthy
	for _, f := range v.Faults {
		switch n := natureOf(f.Condition); n.status {
		case Unhealthy:
			return Unhealthy
		case Unknown:
			status = Unknown
		}
	}
	return status
}

// Message says all that is wrong, in at most 1024 bytes; it is empty if nothing is.
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

// verdict sums up a device.
func (d *device) verdict(cfg *Config) Verdict {
	v := Verdict{Device: d.name, IBDev: d.ibdev}
	for _, n := range d.ports {
		v.Ports = append(v.Ports, d.port(n))
	}
	for _, c := range []Condition{DeviceGone, DriverUnbound} {
		if f, ok := d.fault(c, []int{0}, false, cfg); ok {
			v.Faults = []Fault{f} // of what is away nothing else is known
			return v
		}
	}
	for _, n := range natures {
		if f, ok := d.sum(n.condition, cfg); ok {
			v.Faults = append(v.Faults, f)
		}
	}
	return v
}

// sum is what a condition of ports says of the whole HCA. Its ports lead to one
// uverbs node, and a program uses those that are ACTIVE: so an HCA is down when all
// of them are, and one of two is no reason to keep claims away.
func (d *device) sum(c Condition, cfg *Config) (Fault, bool) {
	switch c {
	case DeviceGone, DriverUnbound:
		return Fault{}, false
	case NoUverbs, NoGUID:
		return d.fault(c, []int{0}, false, cfg)
	case PortDown, NoAddress:
		return d.fault(c, d.ports, true, cfg)
	case Unmonitored:
		if f, ok := d.fault(c, []int{0}, false, cfg); ok {
			return f, true
		}
		return d.fault(c, d.ports, true, cfg)
	case PortDegraded:
		if _, all := d.fault(PortDown, d.ports, true, cfg); all || len(d.ports) < 2 {
			return Fault{}, false
		}
		f, ok := d.fault(PortDown, d.ports, false, cfg)
		f.Condition = PortDegraded
		return f, ok
	}
	return d.fault(c, d.ports, false, cfg)
}

// fault joins what is debounced of several ports: it holds if it does of all, or
// of one of them.
func (d *device) fault(c Condition, ports []int, ofAll bool, cfg *Config) (Fault, bool) {
	f := Fault{Condition: c}
	var notes []string
	for _, n := range ports {
		key := probe{c, n}
		p := d.probes[key]
		if p == nil || !p.faulty {
			if ofAll {
				return Fault{}, false
			}
			continue
		}
		// Of all: since the last one. Of one: since the first.
		if f.Since.IsZero() || p.since.After(f.Since) == ofAll {
			f.Since = p.since
		}
		f.Confirmed = f.Confirmed || p.confirmed
		notes = append(notes, d.note(key, p, cfg))
	}
	f.Message = join(notes)
	return f, notes != nil
}

// note says why something is held to be bad, also while it looks good.
func (d *device) note(key probe, p *debounce, cfg *Config) string {
	note := d.notes[key]
	if note == "" {
		note = resumedNote // and good since
	}
	if p.raw == good {
		note = fmt.Sprintf("good again, and must be so for %s; before: %s", span(p.clearAfter(cfg)), note)
	}
	if p.flapping {
		note += fmt.Sprintf(" (%d times within %s)", cfg.Flaps, span(cfg.FlapWindow))
	}
	return note
}

func (d *device) port(n int) Port {
	out := Port{Number: n}
	if p := d.probes[probe{PortDown, n}]; p != nil {
		out.Down, out.Since = p.faulty, p.since
	}
	if p := d.probes[probe{PortErrors, n}]; p != nil {
		out.Errors = p.faulty
	}
	return out
}
