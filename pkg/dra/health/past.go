package health

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Past is what a model leaves of an HCA to the next instance of the driver in this boot.
type Past struct {
	// Falls are the times of the incidents of each port.
	Falls map[int][]time.Time `json:"falls,omitempty"`
	// Since is when the conditions that hold began.
	Since map[Condition]time.Time `json:"since,omitempty"`
	// Began are their messages from then.
	Began map[Condition]string `json:"began,omitempty"`
	// Recent are the last changes, the oldest first.
	Recent []Change `json:"recent,omitempty"`
}

// keepEvery is the shortest time after which mere repetitions of changes are a change of the Past. A link that falls
// each second does not cost a file each second.
const keepEvery = time.Minute

// Past returns what the model leaves to the next instance, by HCA name, and whether it has changed since the last call.
func (m *Model) Past() (past map[string]Past, changed bool) {
	past = map[string]Past{}
	due := m.last.Sub(m.kept) >= keepEvery
	for _, d := range m.devices {
		changed = changed || d.unsaved || d.changes.unkept && due
	}
	if !changed {
		return nil, false
	}
	m.kept = m.last
	for name, d := range m.devices {
		d.unsaved, d.changes.unkept = false, false
		one := Past{Falls: map[int][]time.Time{}, Since: map[Condition]time.Time{}, Began: map[Condition]string{}}
		for _, f := range m.view.verdicts[name].Faults {
			one.Since[f.Condition], one.Began[f.Condition] = f.Since, f.Began
		}
		for port, f := range d.falls {
			if len(f.incidents) > 0 {
				one.Falls[port] = slices.Clone(f.incidents)
			}
		}
		one.Recent = d.changes.recent
		if len(one.Falls)+len(one.Since)+len(one.Recent) > 0 {
			past[name] = one
		}
	}
	return past, changed
}

// Recall restores what an earlier instance of the driver has left. Call it before the first observation. A time after
// now is of a clock that was set back since, and counts as now.
func (m *Model) Recall(past map[string]Past, now time.Time) {
	for name, one := range past {
		d := m.device(name)
		d.since = one.Since
		d.changes.recall(one.Recent, now)
		for c := range one.Since {
			if consequenceOf(c) != nil { // a newer driver may know more conditions
				d.resumed[c], d.announced[c] = true, cmp.Or(Cut(one.Began[c]), resumedNote)
			}
		}
		for port, incidents := range maps.All(one.Falls) {
			f := &falls{}
			for _, at := range incidents {
				if at.After(now) {
					at = now
				}
				f.incidents = append(f.incidents, at)
			}
			f.incidents = f.incidents[max(0, len(f.incidents)-maxFalls):]
			d.falls[port] = f
		}
	}
}
