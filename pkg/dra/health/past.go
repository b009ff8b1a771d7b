package health

import (
	"maps"
	"slices"
	"time"
)

// Past is what a model leaves of an HCA to the next instance of the driver in this boot, besides the taints.
type Past struct {
	// Falls are the times of the incidents of each port.
	Falls map[int][]time.Time `json:"falls,omitempty"`
	// Since is when the conditions that hold began.
	Since map[Condition]time.Time `json:"since,omitempty"`
}

// Past returns what the model leaves to the next instance, by HCA name, and whether it has changed since the last call.
func (m *Model) Past() (past map[string]Past, changed bool) {
	past = map[string]Past{}
	for name, d := range m.devices {
		changed, d.unsaved = changed || d.unsaved, false
		one := Past{Falls: map[int][]time.Time{}, Since: map[Condition]time.Time{}}
		for _, f := range m.view.verdicts[name].Faults {
			one.Since[f.Condition] = f.Since
		}
		for port, f := range d.falls {
			if len(f.incidents) > 0 {
				one.Falls[port] = slices.Clone(f.incidents)
			}
		}
		if len(one.Falls)+len(one.Since) > 0 {
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
