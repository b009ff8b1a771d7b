package health

import (
	"fmt"
	"slices"
	"time"
)

// Transition is a condition that began or ended.
type Transition struct {
	Device    string
	IBDev     string
	Condition Condition
	Holds     bool // it began
	Unused    bool // nobody cabled the HCA (Verdict.Unused)
	At        time.Time
	Message   string // what is wrong, or was
}

// Reason returns the reason of the transition's event.
func (t Transition) Reason() string {
	if t.Holds {
		return t.Condition.Reason()
	}
	return consequenceOf(t.Condition).ended
}

// Grave reports whether the event of the transition is a warning: the condition keeps traffic or
// claims away, or indicates a broken cable. A port that nobody cabled is none.
func (t Transition) Grave() bool {
	return t.Holds && !t.Condition.is(ordinary) && !(t.Unused && t.Condition == PortDown)
}

// Note returns the message of the transition's event.
func (t Transition) Note() string { return Summary([]Transition{t}) }

// maxNames bounds the names in a summary, in bytes, to leave room for the message.
const maxNames = 512

// Summary returns the message of one event for transitions with the same reason: how many HCAs, their names as
// far as there is room, and the message of the first.
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

// announce returns the conditions of an HCA that began or ended since the last call. A condition
// that a graver one hides has not ended.
func (d *device) announce(v Verdict, now time.Time) []Transition {
	var out []Transition
	for _, c := range consequences {
		i := slices.IndexFunc(v.Faults, func(f Fault) bool { return f.Condition == c.condition })
		message, announced := d.announced[c.condition]
		switch {
		case i >= 0 && !announced:
			message = v.Faults[i].Message
			d.announced[c.condition] = message
		case i < 0 && announced && !v.hides(c.condition):
			delete(d.announced, c.condition)
		default:
			continue
		}
		d.unsaved = true
		out = append(out, Transition{v.Device, v.IBDev, c.condition, i >= 0, v.Unused, now, message})
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
