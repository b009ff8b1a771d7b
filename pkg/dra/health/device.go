package health

import (
	"slices"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// device is the history of one HCA.
type device struct {
	name, ibdev string
	card        string                  // the PCI slot, "" if it is unknown
	since       map[Condition]time.Time // when conditions of an earlier instance of the driver began
	ports       []int                   // numbers of its own ports at the last observation
	present     bool                    // in the last observation, and usable or held
	held        bool
	absentSince time.Time // when the HCA was found neither present nor held, else zero
	probes      map[probe]*debounce
	buckets     map[counter]*bucket
	falls       map[int]*falls       // by port
	resumed     map[Condition]bool   // conditions of an earlier instance of the driver
	announced   map[Condition]string // conditions that announce returned, with their messages

	changes  changes
	came     time.Time // since when the HCA is present
	seen     *rdma.HCA // at the last observation, nil if absent
	standard standard  // at the last observation
	uncabled bool      // at the last observation, no own port had a cable
	unsaved  bool      // the next driver does not know an incident or a change yet
	stable   bool      // no fault and no pending change, so an equal observation needs no work
	current  Verdict   // valid while stable
}

const resumedNote = "found by an earlier instance of the driver"

// counter is one error counter of a port.
type counter struct {
	port int
	name string
}

func newDevice(name string) *device {
	return &device{
		name: name, probes: map[probe]*debounce{}, buckets: map[counter]*bucket{}, falls: map[int]*falls{},
		resumed: map[Condition]bool{}, announced: map[Condition]string{}, changes: newChanges(),
	}
}

// forgotten reports whether the HCA was absent for so long that its history no longer counts.
func (d *device) forgotten(now time.Time, cfg *Config) bool {
	return !d.absentSince.IsZero() && now.Sub(d.absentSince) > max(cfg.Up, cfg.FlapWindow)
}

// see takes the observation of a present HCA.
func (d *device) see(h *rdma.HCA, o *Observation, s standard, now time.Time, cfg *Config) {
	before, same := d.seen, d.standard == s
	d.seen, d.standard = h, s
	d.unsaved = d.changes.see(h, o.PCIe[h.Name].PCIeLink, now, cfg) || d.unsaved
	reporters, told := o.Firmware[h.Name]
	news := told || o.hasReading(h) || len(o.PCIe[h.Name].Errors) > 0 || o.hasWiring(h)
	if d.stable && before != nil && same && before.Equal(h) && !news {
		return
	}
	d.stable = false
	d.present, d.ibdev, d.ports, d.card = true, h.IBDev, d.ports[:0], slotOf(h)
	d.take(judgeHCA(h, o), now, cfg)
	d.take([]judgement{judgeRate(h, s, o), judgePCIe(s), judgeFirmware(reporters, told && !isPart(h))}, now, cfg)
	if before == nil {
		d.came = now
	}
	if p, ok := o.PCIe[h.Name]; ok && !isPart(h) {
		// A card that was reset, or whose driver was loaded again, has taken its PCIe link down with errors.
		settling := now.Sub(d.came) < cfg.Sick
		d.take([]judgement{d.judgeRises(PCIeErrors, 0, p.Errors, cfg.PCIe, settling, now)}, now, cfg)
	}
	d.uncabled = true
	for p := range h.OwnPorts() {
		d.ports = append(d.ports, p.Number)
		reading := o.Readings[PortID{d.name, p.Number}]
		d.uncabled = d.uncabled && reading.NoCable
		d.take([]judgement{
			judgeAddress(h, p, o), judgeWiring(PortID{d.name, p.Number}, o.Wiring),
			d.judgeFalls(before, h, p, o, now, cfg), d.judgeCounters(p.Number, reading, now, cfg),
		}, now, cfg)
	}
	for key := range d.probes {
		if key.port != 0 && !slices.Contains(d.ports, key.port) {
			delete(d.probes, key)
		}
	}
}

// miss takes the observation that the HCA is absent. The state of its ports is unknown.
func (d *device) miss(unbound bool, now time.Time, cfg *Config) {
	if d.present && !d.held {
		// No claim needs the device now, but one that disappears repeatedly is faulty.
		gone := d.probe(probe{DeviceGone, 0})
		gone.note = "the device came and went"
		gone.fall(now, cfg)
	}
	d.present, d.seen, d.stable = false, nil, false
	for key, p := range d.probes {
		if !d.held || !key.condition.is(absent) {
			p.observe(unknown, now, cfg)
		}
	}
	if d.held {
		d.take(judgeAbsent(unbound), now, cfg)
	}
}

func (d *device) take(judged []judgement, now time.Time, cfg *Config) {
	for _, j := range judged {
		if j.signal == unknown && d.probes[j.probe] == nil && !(j.condition.is(patient) && d.resumed[j.condition]) {
			continue // no probe exists, and this signal needs none
		}
		p := d.probe(j.probe)
		if j.signal == bad {
			p.note = j.note
		}
		p.observe(j.signal, now, cfg)
	}
}

func (d *device) probe(key probe) *debounce {
	if d.probes[key] == nil {
		held := d.resumed[key.condition]
		d.probes[key] = &debounce{
			faulty: held, confirmed: held, since: d.since[key.condition], patient: key.condition.is(patient),
		}
	}
	return d.probes[key]
}

// judgeCounters judges the error counters of a port. Those of the HCA go on while a pod has the interface. Those of the
// interface stay as they were, because the pod may let the link begin again and again.
func (d *device) judgeCounters(port int, r Reading, now time.Time, cfg *Config) judgement {
	f, limits := d.falls[port], slices.Concat(cfg.Thresholds, cfg.Ethernet)
	if f == nil {
		return d.judgeRises(PortErrors, port, r.Counters, limits, false, now)
	}
	if !f.unsettled(now, cfg) {
		return d.judgeRises(PortErrors, port, r.Counters, limits, f.settling(now, cfg), now)
	}
	own := d.judgeRises(PortErrors, port, r.Counters, cfg.Thresholds, f.settling(now, cfg), now)
	for i := range cfg.Ethernet {
		t := &cfg.Ethernet[i]
		if b := d.buckets[counter{port, t.Counter}]; b != nil {
			b.at = time.Time{} // the next reading is the first one again, and the level stays
			if b.level > t.Count && own.signal != bad {
				own = judgement{own.probe, bad, t.note()}
			}
		}
	}
	return own
}

// judgeRises judges how fast counters rise.
func (d *device) judgeRises(
	c Condition, port int, values map[string]uint64, limits []Threshold, settling bool, now time.Time,
) judgement {
	var notes []string
	known := false
	for i := range limits {
		t := &limits[i]
		value, ok := values[t.Counter]
		if !ok {
			continue
		}
		known = true
		key := counter{port, t.Counter}
		if d.buckets[key] == nil {
			d.buckets[key] = &bucket{}
		}
		if d.buckets[key].fill(value, settling && !t.ofFalls(), now, t) {
			notes = append(notes, t.note())
		}
	}
	if !known {
		return judgement{probe{c, port}, unknown, ""}
	}
	return judge(len(notes) > 0, c, port, join(notes))
}

// settle ends an observation of an HCA that is present or held. It returns the verdict, and determines
// whether the HCA is stable.
func (d *device) settle(cfg *Config) Verdict {
	if !d.stable {
		d.current = d.verdict(cfg)
		d.stable = d.seen != nil && len(d.announced) == 0
		for _, p := range d.probes {
			d.stable = d.stable && p.raw != bad && !p.faulty
		}
	}
	return d.current
}

// deadline returns when another observation may change something without a change of the host.
func (d *device) deadline(cfg *Config) (time.Time, bool) {
	var first time.Time
	if d.stable {
		return first, false
	}
	for _, p := range d.probes {
		if at, ok := p.deadline(cfg); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}
