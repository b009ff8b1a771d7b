package health

import (
	"slices"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// device is what is kept of one HCA.
type device struct {
	name, ibdev string
	ports       []int // numbers of its own ports, as last seen
	present     bool  // in the last observation, and usable or held
	held        bool
	leftAt      time.Time // when it was found to be neither there nor held, else zero
	probes      map[probe]*debounce
	notes       map[probe]string // what was bad last
	buckets     map[counter]*bucket
	resumed     map[Condition]bool   // what an earlier model held
	announced   map[Condition]string // what the caller was told of, with the words

	seen *rdma.HCA // as it was judged last, nil if it is away
	calm bool      // nothing is wrong or in doubt, so that a look which shows the same says nothing
	well Verdict   // while calm
}

const resumedNote = "found by an earlier instance of the driver"

// counter is one error counter of a port.
type counter struct {
	port int
	name string
}

func newDevice(name string) *device {
	return &device{
		name: name, probes: map[probe]*debounce{}, notes: map[probe]string{}, buckets: map[counter]*bucket{},
		resumed: map[Condition]bool{}, announced: map[Condition]string{},
	}
}

// forgotten reports whether the HCA left so long ago that its history says nothing.
func (d *device) forgotten(now time.Time, cfg *Config) bool {
	return !d.leftAt.IsZero() && now.Sub(d.leftAt) > max(cfg.Up, cfg.FlapWindow)
}

// see takes an HCA that is there.
func (d *device) see(h *rdma.HCA, o *Observation, now time.Time, cfg *Config) {
	before := d.seen
	d.seen = h
	if d.calm && before != nil && before.Equal(h) && !o.read(h) {
		return
	}
	d.calm = false
	d.present, d.ibdev, d.ports = true, h.IBDev, d.ports[:0]
	d.take(judge(h), now, cfg)
	for p := range h.OwnPorts() {
		d.ports = append(d.ports, p.Number)
		reading := o.Readings[PortID{d.name, p.Number}]
		d.take([]judgement{judgeAddress(h, p, reading), d.judgeCounters(p.Number, reading, now, cfg)}, now, cfg)
	}
	for key := range d.probes {
		if key.port != 0 && !slices.Contains(d.ports, key.port) {
			delete(d.probes, key)
			delete(d.notes, key)
		}
	}
}

// miss takes that the HCA is not there. Nothing is known of its ports.
func (d *device) miss(unbound bool, now time.Time, cfg *Config) {
	if gone := (probe{DeviceGone, 0}); d.present && !d.held {
		// Nobody minds that it is away, but one that goes again and again is no good.
		d.notes[gone] = "the device came and went"
		d.probe(gone).fall(now, cfg)
	}
	d.present, d.seen, d.calm = false, nil, false
	for key, p := range d.probes {
		if !d.held || key.condition != DeviceGone && key.condition != DriverUnbound {
			p.observe(unknown, now, cfg)
		}
	}
	if d.held {
		d.take(judgeAway(unbound), now, cfg)
	}
}

func (d *device) take(judged []judgement, now time.Time, cfg *Config) {
	for _, j := range judged {
		if j.signal == unknown && d.probes[j.probe] == nil {
			continue // never judged, and nothing to judge now
		}
		if j.signal == bad {
			d.notes[j.probe] = j.note
		}
		d.probe(j.probe).observe(j.signal, now, cfg)
	}
}

func (d *device) probe(key probe) *debounce {
	if d.probes[key] == nil {
		held := d.resumed[key.condition]
		d.probes[key] = &debounce{faulty: held, confirmed: held}
	}
	return d.probes[key]
}

// judgeCounters judges the error counters of a port.
func (d *device) judgeCounters(port int, r Reading, now time.Time, cfg *Config) judgement {
	var notes []string
	known := false
	for i := range cfg.Thresholds {
		t := &cfg.Thresholds[i]
		value, ok := r.Counters[t.Counter]
		if !ok {
			continue
		}
		known = true
		key := counter{port, t.Counter}
		if d.buckets[key] == nil {
			d.buckets[key] = &bucket{}
		}
		if d.buckets[key].fill(value, now, t) {
			notes = append(notes, t.note())
		}
	}
	if !known {
		return judgement{probe{PortErrors, port}, unknown, ""}
	}
	return when(len(notes) > 0, PortErrors, port, func() string { return join(notes) })
}

// settle ends a look at an HCA that is there or held: it returns the verdict, and finds out
// whether the HCA is calm.
func (d *device) settle(cfg *Config) Verdict {
	if !d.calm {
		d.well = d.verdict(cfg)
		d.calm = d.seen != nil && len(d.announced) == 0
		for _, p := range d.probes {
			d.calm = d.calm && p.raw != bad && !p.faulty
		}
	}
	return d.well
}

// deadline is when another look would change something.
func (d *device) deadline(cfg *Config) (time.Time, bool) {
	var first time.Time
	if d.calm {
		return first, false
	}
	for _, p := range d.probes {
		if at, ok := p.deadline(cfg); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}
