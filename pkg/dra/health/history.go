package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// maxRecent bounds the changes that are kept of an HCA.
const maxRecent = 16

// What a [Change] is of, besides conditions.
const (
	changeLink = "link" // the state of a port
	changeRate = "rate" // of an ACTIVE port, in Gb/s
	changePCIe = "pcie" // the narrowest PCIe link up to the root, in GT/s x lanes
)

// The values of a condition in a [Change].
const (
	conditionBegan = "began"
	conditionEnded = "ended"
)

// Change is something of an HCA that became different. Repeated changes of one thing within Config.Incident are one
// Change, so that a link that falls again and again does not displace everything else.
type Change struct {
	At   time.Time `json:"at"`             // of the first
	Last time.Time `json:"last"`           // of the last
	What string    `json:"what"`           // link, rate, pcie, or a condition
	Port int       `json:"port,omitempty"` // 0 for the whole HCA
	From string    `json:"from,omitempty"` // before the first
	To   string    `json:"to"`             // after the last
	// Times is how often it changed.
	Times int `json:"times"`
}

// String returns the change without its time: "rate fell from 400 to 200 Gb/s".
func (c Change) String() string {
	c.What, c.From, c.To = text.Terminal(c.What), text.Terminal(c.From), text.Terminal(c.To) // they may be of a file
	var of string
	if c.Port > 0 {
		of = fmt.Sprintf(" of port %d", c.Port)
	}
	switch c.What {
	case changeLink:
		return "link" + of + c.went("went", "")
	case changeRate:
		return "rate" + of + c.went(direction(c.From, c.To), " Gb/s")
	case changePCIe:
		return "PCIe link" + c.went("went", " GT/s")
	}
	if c.Times > 1 {
		return fmt.Sprintf("%s changed %d times, and %s last", c.What, c.Times, c.To)
	}
	return c.What + " " + c.To
}

// went returns the words for one or more changes.
func (c Change) went(verb, unit string) string {
	switch {
	case c.Times > 1 && c.From == c.To:
		return fmt.Sprintf(" changed %d times, and is %s%s again", c.Times, c.To, unit)
	case c.Times > 1:
		return fmt.Sprintf(" changed %d times, from %s to %s%s", c.Times, c.From, c.To, unit)
	}
	return fmt.Sprintf(" %s from %s to %s%s", verb, c.From, c.To, unit)
}

// direction returns whether a number fell or rose.
func direction(from, to string) string {
	before, err1 := strconv.ParseFloat(from, 64)
	after, err2 := strconv.ParseFloat(to, 64)
	switch {
	case err1 != nil || err2 != nil:
		return "went"
	case after < before:
		return "fell"
	}
	return "rose"
}

// History is what happened to an HCA in this boot, as cause and effect.
type History struct {
	// Recent are its last changes, the oldest first, at most 16.
	Recent []Change
	// Falls is in how many incidents its ports fell within Config.FallWindow.
	Falls int
	// PCIe says whether the PCIe link has no errors, and is as wide as policy or other cards say. It is nil if one of these
	// is not known.
	PCIe *bool
}

// Summary returns the last change of link, rate or PCIe, whether PCIe is fine, and how often the link fell in a day:
// "rate fell from 400 to 200 Gb/s at 02:13 UTC, PCIe fine, 3 falls in 24 h". It is empty without a change or a fall.
func (h History) Summary() string {
	var parts []string
	for _, c := range slices.Backward(h.Recent) {
		if slices.Contains([]string{changeLink, changeRate, changePCIe}, c.What) {
			parts = append(parts, c.String()+" at "+text.Time(c.Last))
			break
		}
	}
	if parts == nil && h.Falls == 0 {
		return ""
	}
	if h.PCIe != nil && *h.PCIe {
		parts = append(parts, "PCIe fine")
	} else if h.PCIe != nil {
		parts = append(parts, "PCIe not fine")
	}
	if h.Falls > 0 {
		parts = append(parts, text.Count(h.Falls, "fall")+" in 24 h")
	}
	return strings.Join(parts, ", ")
}

// Line returns a change with its time, for a list.
func (c Change) Line() string { return text.Time(c.Last) + ": " + c.String() }

// changes has the recent changes of one HCA, and what the next ones are compared with. A reader may keep recent: it is
// replaced, and never changed.
type changes struct {
	recent []Change
	links  map[int]rdma.PortState // the last known state of each port
	rates  map[int]int            // the last known rate of each port while it was ACTIVE, in Mb/s
	pcie   rdma.PCIeLink          // the last known, zero for none
	unkept bool                   // a repetition is not kept for the next driver yet
}

func newChanges() changes { return changes{links: map[int]rdma.PortState{}, rates: map[int]int{}} }

// add adds a change, and reports whether it is more than a repetition.
func (p *changes) add(c Change, cfg *Config) (news bool) {
	c.Last, c.Times = c.At, 1
	recent := slices.Clone(p.recent)
	for i := len(recent) - 1; i >= 0; i-- {
		same := &recent[i]
		if same.What != c.What || same.Port != c.Port {
			continue
		}
		if c.At.Sub(same.At) >= cfg.Incident {
			break
		}
		same.To, same.Last, same.Times = c.To, c.At, same.Times+1
		p.recent, p.unkept = recent, true
		return false
	}
	p.recent = append(recent, c)
	if len(p.recent) > maxRecent {
		p.drop()
	}
	return true
}

// drop removes the oldest change of what changed most often: what changes all day displaces itself.
func (p *changes) drop() {
	of := func(c Change) Change { return Change{What: c.What, Port: c.Port} }
	counts, most := map[Change]int{}, 0
	for _, c := range p.recent {
		counts[of(c)]++
		most = max(most, counts[of(c)])
	}
	i := slices.IndexFunc(p.recent, func(c Change) bool { return counts[of(c)] == most })
	p.recent = slices.Delete(p.recent, i, i+1)
}

// see compares a card with how it was, and reports whether there is a new change. VFs and SFs have the link of their
// card.
func (p *changes) see(h *rdma.HCA, pcie PCIeLink, now time.Time, cfg *Config) (news bool) {
	if isPart(h) {
		return false
	}
	differs := func(what string, port int, from, to string) {
		news = p.add(Change{At: now, What: what, Port: port, From: from, To: to}, cfg) || news
	}
	for port := range h.OwnPorts() {
		n := port.Number
		if before := p.links[n]; port.State != "" {
			if before != "" && before != port.State {
				differs(changeLink, n, string(before), string(port.State))
			}
			p.links[n] = port.State
		}
		if port.State == rdma.PortActive && port.RateMbps > 0 {
			if before := p.rates[n]; before > 0 && before != port.RateMbps {
				differs(changeRate, n, gbps(before), gbps(port.RateMbps))
			}
			p.rates[n] = port.RateMbps
		}
	}
	if link := pcie.Link; link.Capacity() > 0 {
		if p.pcie.Capacity() > 0 && p.pcie != link {
			differs(changePCIe, 0, p.pcie.String(), link.String())
		}
		p.pcie = link
	}
	return news
}

// note adds the conditions of an HCA that began or ended.
func (p *changes) note(all []Transition, cfg *Config) {
	for _, t := range all {
		c := Change{At: t.At, What: string(t.Condition), From: conditionBegan, To: conditionEnded}
		if t.Holds {
			c.From, c.To = conditionEnded, conditionBegan
		}
		p.add(c, cfg)
	}
}

// history returns the history of a device.
func (d *device) history(v Verdict, now time.Time, cfg *Config) History {
	h := History{Recent: d.changes.recent}
	for _, f := range d.falls {
		h.Falls += f.within(now, cfg)
	}
	if v.has(PCIeDegraded) || v.has(PCIeErrors) {
		h.PCIe = new(false)
		return h
	}
	compared := d.standard.MinPCIe.Capacity() > 0 || d.standard.peersPCIe > 0 // else any width is good
	for _, c := range []Condition{PCIeDegraded, PCIeErrors} {
		p := d.probes[probe{c, 0}]
		compared = compared && p != nil && p.raw == good
	}
	if compared {
		h.PCIe = new(true)
	}
	return h
}

// recall restores the changes that an earlier instance of the driver has left, within bounds. Times after now are of a
// clock that was set back since, and count as now.
func (p *changes) recall(recent []Change, now time.Time) {
	p.recent = nil
	for _, c := range recent[max(0, len(recent)-maxRecent):] {
		if c.At.After(now) {
			c.At = now
		}
		if c.Last.After(now) {
			c.Last = now
		}
		c.What, c.From, c.To = word(c.What), word(c.From), word(c.To)
		p.recent = append(p.recent, c)
	}
}

// maxWord bounds a word of a recalled change.
const maxWord = 64

func word(s string) string { return s[:min(len(s), maxWord)] }
