package health

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Transition is a condition that began or ended.
type Transition struct {
	Device    string
	IBDev     string
	Condition Condition
	Holds     bool // it began
	At        time.Time
	Message   string // what is wrong, or was
}

// Reason is the transition as the reason of an event.
func (t Transition) Reason() string {
	n := natureOf(t.Condition)
	if t.Holds {
		return n.came
	}
	return n.went
}

// Grave reports whether the transition is one that a person should hear of as a
// warning: it keeps traffic or claims away, or tells of a broken cable.
func (t Transition) Grave() bool { return t.Holds && t.Condition != NoAddress }

// Note is the transition in words, for an event.
func (t Transition) Note() string { return Summary([]Transition{t}) }

// maxNames bounds the names in a summary, in bytes: what is wrong has to fit beside them.
const maxNames = 512

// Summary is transitions of one reason in words, for one event: how many HCAs, which, and what is wrong with the
// first. It names as many as there is room for.
func Summary(all []Transition) string {
	first := all[0]
	text := fmt.Sprintf("RDMA device %s: ", first.name())
	if len(all) > 1 {
		text = fmt.Sprintf("%d RDMA devices: %s: ", len(all), names(all))
	}
	if !first.Holds {
		text += "over: "
	}
	if slices.ContainsFunc(all, func(t Transition) bool { return t.Message != first.Message }) {
		text += "the first: "
	}
	return Cut(text + first.Message)
}

func names(all []Transition) string {
	text := all[0].name()
	for i, t := range all[1:] {
		if len(text) > maxNames {
			return fmt.Sprintf("%s and %d more", text, len(all)-1-i)
		}
		text += ", " + t.name()
	}
	return text
}

func (t Transition) name() string { return fmt.Sprintf("%s (%s)", t.Device, t.IBDev) }

// announce returns what began and what ended of an HCA since it was last asked. What
// only cannot be seen, since something graver hides it, has not ended.
func (d *device) announce(v Verdict, now time.Time) []Transition {
	var out []Transition
	for _, n := range natures {
		i := slices.IndexFunc(v.Faults, func(f Fault) bool { return f.Condition == n.condition })
		message, said := d.announced[n.condition]
		switch {
		case i >= 0 && !said:
			message = v.Faults[i].Message
			d.announced[n.condition] = message
		case i < 0 && said && !v.hides(n.condition):
			delete(d.announced, n.condition)
		default:
			continue
		}
		out = append(out, Transition{v.Device, v.IBDev, n.condition, i >= 0, now, message})
	}
	return out
}

// hides reports whether a condition could hold without being among the faults.
func (v Verdict) hides(c Condition) bool {
	return v.has(DeviceGone) || v.has(DriverUnbound) || c == PortDegraded && v.has(PortDown)
}

func (v Verdict) has(c Condition) bool {
	return slices.ContainsFunc(v.Faults, func(f Fault) bool { return f.Condition == c })
}

// Counts returns how many HCAs each condition holds of, for metrics; conditions that
// hold of none are in it with 0.
func (v *View) Counts() map[Condition]int {
	out := map[Condition]int{}
	for _, c := range Conditions() {
		out[c] = 0
	}
	for verdict := range maps.Values(v.verdicts) {
		for _, f := range verdict.Faults {
			out[f.Condition]++
		}
	}
	return out
}
