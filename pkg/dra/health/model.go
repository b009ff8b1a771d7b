package health

import (
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Model keeps the health of the HCAs of one host. It is for one goroutine at a time. Several
// goroutines may use the views that it returns.
type Model struct {
	cfg     Config
	devices map[string]*device
	view    *View
	last    time.Time
	kept    time.Time // when Past has returned all repetitions of changes
}

// New makes a model without devices.
func New(cfg Config) *Model {
	return &Model{cfg: cfg, devices: map[string]*device{}, view: &View{stale: cfg.Stale}}
}

// Configure sets the configuration, from the next observation on.
func (m *Model) Configure(cfg Config) { m.cfg = cfg }

func (m *Model) device(name string) *device {
	if m.devices[name] == nil {
		m.devices[name] = newDevice(name)
	}
	return m.devices[name]
}

// Observe takes an observation, and returns the conditions that began or ended since the last
// one. A time before the last observation counts as the time of that one.
func (m *Model) Observe(o Observation, now time.Time) []Transition {
	if now.Before(m.last) {
		now = m.last
	}
	m.last = now
	maps.DeleteFunc(m.devices, func(_ string, d *device) bool { return d.forgotten(now, &m.cfg) })
	seen := m.take(&o, now)
	view := &View{At: now, stale: m.cfg.Stale, verdicts: make(map[string]Verdict, len(m.devices))}
	var judged []string
	for name, d := range m.devices {
		if !seen[name] {
			d.miss(slices.Contains(o.Unbound, name), now, &m.cfg)
		}
		switch {
		case d.present || d.held:
			d.absentSince = time.Time{}
			if !d.stable {
				judged = append(judged, name)
			}
			view.verdicts[name] = d.settle(&m.cfg)
		case d.absentSince.IsZero():
			d.absentSince = now
		}
	}
	m.view = view
	slices.Sort(judged)
	transitions := m.announce(judged)
	view.histories = m.histories(now)
	return transitions
}

// histories returns the histories of the HCAs with a verdict that have one.
func (m *Model) histories(now time.Time) map[string]History {
	out := map[string]History{}
	for name, v := range m.view.verdicts {
		if h := m.devices[name].history(v, now, &m.cfg); len(h.Recent) > 0 || h.Falls > 0 {
			out[name] = h
		}
	}
	return out
}

// take takes the HCAs that are present, and returns their names.
func (m *Model) take(o *Observation, now time.Time) map[string]bool {
	held := make(map[string]bool, len(o.Held))
	for _, name := range o.Held {
		held[name] = true
		m.device(name)
	}
	for name, d := range m.devices {
		d.held = held[name]
	}
	seen := make(map[string]bool, len(m.devices))
	standards := o.standards()
	for i := range o.Snapshot.HCAs {
		h := &o.Snapshot.HCAs[i]
		// An unusable HCA is not published, so its health does not matter unless a claim
		// holds it. Of one that a pod has made, nobody is to be told.
		if (h.Unusable() != nil || h.Foreign()) && !held[h.Name] {
			continue
		}
		seen[h.Name] = true
		m.device(h.Name).see(h, o, standards[h.Name], now, &m.cfg)
	}
	return seen
}

func (m *Model) announce(judged []string) []Transition {
	var out []Transition
	for _, name := range judged {
		d := m.devices[name]
		of := d.announce(m.view.verdicts[name], m.view.At)
		d.changes.note(of, &m.cfg)
		out = append(out, of...)
	}
	return out
}

// View returns the state after the last observation.
func (m *Model) View() *View { return m.view }

// Next returns when another observation may change something without a change of the host, and
// false for never. An event or the caller's poll may come first.
func (m *Model) Next() (time.Time, bool) {
	var first time.Time
	for _, d := range m.devices {
		if at, ok := d.deadline(&m.cfg); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}

// Pending returns the kernel's names of the HCAs with a pending change, which Next
// waits for, sorted.
func (m *Model) Pending() []string {
	var names []string
	for _, d := range m.devices {
		if _, ok := d.deadline(&m.cfg); ok && d.ibdev != "" {
			names = append(names, d.ibdev)
		}
	}
	slices.Sort(names)
	return names
}

// View is the health of all HCAs at one time. Nobody changes it.
type View struct {
	// At is the time of the observation, zero before the first.
	At        time.Time
	stale     time.Duration
	verdicts  map[string]Verdict
	histories map[string]History
}

// Same reports whether two views have the same faults of the same HCAs.
func (v *View) Same(o *View) bool {
	return maps.EqualFunc(v.verdicts, o.verdicts, func(a, b Verdict) bool { return slices.Equal(a.Faults, b.Faults) })
}

// Verdict returns the verdict on an HCA, and whether there is one.
func (v *View) Verdict(device string) (Verdict, bool) {
	verdict, ok := v.verdicts[device]
	return verdict, ok
}

// History returns what happened to an HCA lately.
func (v *View) History(device string) History { return v.histories[device] }

// Taints returns the taints of the HCAs that have any under a policy, by name.
func (v *View) Taints(p Policy) map[string][]resourceapi.DeviceTaint {
	out := map[string][]resourceapi.DeviceTaint{}
	sickCard := p.sickCard(v.verdicts)
	for name, verdict := range v.verdicts {
		if taints := p.taints(verdict, sickCard); taints != nil {
			out[name] = taints
		}
	}
	return out
}

// Report returns the health of an HCA for the kubelet: its status, and a message if it is not
// healthy. The status is unknown if the last observation is too old.
func (v *View) Report(device string, now time.Time) (Status, string) {
	if v.At.IsZero() || now.Sub(v.At) > v.stale {
		return Unknown, "the host's RDMA devices have not been read for too long; see the log of the driver"
	}
	verdict, ok := v.verdicts[device]
	if !ok {
		return Unknown, "there is no such device"
	}
	return verdict.Status(), verdict.Message()
}
