package leaf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const (
	// Agreement is how long the sources must say the same before the link of a port changes.
	Agreement = 10 * time.Minute
	// hold is how long a link stays while no source can be read.
	hold = time.Hour
)

// State is the link of a port, as it counts.
type State struct {
	Link
	// Source is the source that knows it. Since is when it began to count, and Seen when the source last said it.
	Source Source
	Since  time.Time
	Seen   time.Time
	// Why says why there is no link, or what else is seen.
	Why string
	// Planned is the link of the port in the site's table, empty for none.
	Planned Link
}

// Model keeps the links of the ports of one host. It is for one goroutine at a time.
type Model struct {
	ports   map[health.PortID]*port
	kept    map[health.PortID]State // of each HCA's ports, VFs and SFs included, as they were published last
	unsaved bool
}

// port is the history of a physical port.
type port struct {
	State
	other      Link // what is seen instead
	otherSince time.Time
}

// New makes a model without ports.
func New() *Model { return &Model{ports: map[health.PortID]*port{}, kept: map[health.PortID]State{}} }

// Observe takes readings of ports. A port that is not among them stays as it was.
func (m *Model) Observe(readings map[health.PortID]Reading, now time.Time) {
	for id, r := range readings {
		p := m.ports[id]
		if p == nil {
			p = &port{}
			m.ports[id] = p
		}
		if p.observe(r, now) {
			m.unsaved = true
		}
	}
}

// observe takes a reading, and reports whether the link changed. The first link of a port counts at once.
func (p *port) observe(r Reading, now time.Time) bool {
	p.Planned, p.Why = r.Planned, r.Why
	known := p.Link != Link{}
	switch {
	case r.Failed && known && now.Sub(p.Seen) > hold, r.Link != Link{} && p.Since.IsZero():
		p.set(r, now)
		return true
	case r.Failed:
		return false
	case r.Link == p.Link:
		p.other = Link{}
		if known {
			p.Seen, p.Source = now, r.Source
		}
		return false
	case p.otherSince.IsZero() || p.other != r.Link:
		p.other, p.otherSince = r.Link, now
	case now.Sub(p.otherSince) >= Agreement:
		p.set(r, now)
		return true
	}
	if p.Why = strings.TrimPrefix(r.Why+"; ", "; "); known {
		p.Why += fmt.Sprintf("%s is seen since %s instead of %s, and counts after %s",
			orNothing(r.Link), text.Time(p.otherSince), p.Link, Agreement)
	}
	return false
}

func orNothing(l Link) string {
	if l == (Link{}) {
		return "nothing"
	}
	return l.String()
}

func (p *port) set(r Reading, now time.Time) {
	p.Link, p.Source, p.Since, p.Seen = r.Link, r.Source, now, now
	p.other, p.otherSince = Link{}, time.Time{}
}

// View returns the links of the HCAs of a snapshot, and of held ones that it lacks. An HCA that a claim holds keeps the
// link that it had.
func (m *Model) View(snap *rdma.Snapshot, held []string) *View {
	v := &View{ports: map[health.PortID]State{}, first: map[string]health.PortID{}}
	pfs, isHeld := physicalOf(snap), map[string]bool{}
	for _, name := range held {
		isHeld[name] = true
	}
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		for p := range h.OwnPorts() {
			id := health.PortID{Device: h.Name, Port: p.Number}
			if _, ok := v.first[h.Name]; !ok {
				v.first[h.Name] = id
			}
			var now State
			if of := m.ports[pfs.portOf(h, p.Number)]; of != nil {
				now = of.State
			}
			v.ports[id] = m.keep(id, now, isHeld[h.Name])
		}
	}
	for id, kept := range m.kept {
		if _, present := v.ports[id]; present || snap.Lookup(id.Device) != nil {
			continue
		}
		if !isHeld[id.Device] {
			delete(m.kept, id)
			m.unsaved = true
			continue
		}
		v.ports[id] = kept
		if first, ok := v.first[id.Device]; !ok || id.Port < first.Port {
			v.first[id.Device] = id
		}
	}
	return v
}

// keep returns the state of a port as it counts for its HCA.
func (m *Model) keep(id health.PortID, now State, held bool) State {
	was, ok := m.kept[id]
	if held && ok && was.Leaf != "" && was.Link != now.Link {
		was.Why = strings.TrimPrefix(now.Why+"; a claim holds the HCA, which keeps its leaf until the claim ends", "; ")
		was.Planned = now.Planned
		return was
	}
	if was.Link != now.Link {
		m.unsaved = true
	}
	if now.Link == (Link{}) {
		delete(m.kept, id)
	} else {
		m.kept[id] = now
	}
	return now
}

// physical has the HCAs that have ports of their own, by PCI address.
type physical map[string]*rdma.HCA

func physicalOf(snap *rdma.Snapshot) physical {
	out := physical{}
	for i := range snap.HCAs {
		if h := &snap.HCAs[i]; h.Function == rdma.PF && h.PCI != nil && out[h.PCI.Address] == nil {
			out[h.PCI.Address] = h
		}
	}
	return out
}

// portOf returns the physical port of an HCA's port: that of its PF for a VF or SF.
func (all physical) portOf(h *rdma.HCA, number int) health.PortID {
	own := health.PortID{Device: h.Name, Port: number}
	pf := all[h.PF]
	if h.PF == "" || pf == nil {
		return own
	}
	first := health.PortID{}
	for p := range pf.OwnPorts() {
		if p.Number == number {
			return health.PortID{Device: pf.Name, Port: number}
		}
		if first == (health.PortID{}) {
			first = health.PortID{Device: pf.Name, Port: p.Number}
		}
	}
	return first
}

// IsPhysical reports whether an HCA has a cable of its own, and is no VF or SF.
func IsPhysical(h *rdma.HCA) bool { return h.Function != rdma.VF && h.Function != rdma.SF }

// View has the links of HCAs at one time. Nobody changes it. A nil View has none.
type View struct {
	ports map[health.PortID]State
	first map[string]health.PortID
}

// Port returns the link of a port.
func (v *View) Port(device string, number int) State {
	if v == nil {
		return State{}
	}
	return v.ports[health.PortID{Device: device, Port: number}]
}

// First returns the link of the first port of an HCA. It is published.
func (v *View) First(device string) State {
	if v == nil {
		return State{}
	}
	return v.ports[v.first[device]]
}

// Leaves returns the leaves of the HCAs that have one, by name.
func (v *View) Leaves() map[string]string {
	if v == nil {
		return nil
	}
	out := map[string]string{}
	for device, id := range v.first {
		if leaf := v.ports[id].Leaf; leaf != "" {
			out[device] = leaf
		}
	}
	return out
}

// Wiring returns the links of physical ports that are both planned and seen. What the table itself says is not seen.
func (m *Model) Wiring() map[health.PortID]health.Wiring {
	out := map[health.PortID]health.Wiring{}
	for id, p := range m.ports {
		if p.Planned.Leaf != "" && p.Leaf != "" && p.Source != Table {
			out[id] = health.Wiring{
				Planned: p.Planned.String(), Seen: p.Link.String(), Differs: differs(p.Planned, p.Link),
			}
		}
	}
	return out
}

// differs reports whether a link is not as planned. A plan may leave out the port.
func differs(planned, seen Link) bool {
	return !v1alpha1.SameLeaf(planned.Leaf, seen.Leaf) ||
		planned.Port != "" && seen.Port != "" && !strings.EqualFold(planned.Port, seen.Port)
}

// Same reports whether two views have the same links, planned and seen.
func (v *View) Same(o *View) bool {
	if v == nil || o == nil {
		return v == o
	}
	return maps.EqualFunc(v.ports, o.ports, func(a, b State) bool {
		return a.Link == b.Link && a.Planned == b.Planned && a.Source == b.Source
	})
}

// Past is a link that a model leaves to the next instance of the driver in this boot.
type Past struct {
	Device string `json:"device"`
	Port   int    `json:"port"`
	Link
	Source Source    `json:"source"`
	Since  time.Time `json:"since"`
	// Kept says that the link is that of the HCA as it was published last. Otherwise it is that of the physical port.
	Kept bool `json:"kept,omitempty"`
}

// Past returns what the model leaves, sorted, and whether it has changed since the last call.
func (m *Model) Past() ([]Past, bool) {
	if !m.unsaved {
		return nil, false
	}
	m.unsaved = false
	out := []Past{}
	for id, p := range m.ports {
		if !p.Since.IsZero() {
			out = append(out, pastOf(id, p.State, false))
		}
	}
	for id, kept := range m.kept {
		out = append(out, pastOf(id, kept, true))
	}
	slices.SortFunc(out, func(a, b Past) int {
		return strings.Compare(fmt.Sprint(a.Device, a.Port, a.Kept), fmt.Sprint(b.Device, b.Port, b.Kept))
	})
	return out, true
}

func pastOf(id health.PortID, s State, kept bool) Past {
	return Past{Device: id.Device, Port: id.Port, Link: s.Link, Source: s.Source, Since: s.Since, Kept: kept}
}

// Recall restores what an earlier instance of the driver has left. Call it before the first observation. A link that
// cannot be published is left out. A time after now is of a clock that was set back since, and counts as now.
func (m *Model) Recall(past []Past, now time.Time) {
	for _, one := range past {
		if one.Link != (Link{}) && check(one.Link) != nil || one.Kept && one.Link == (Link{}) {
			continue
		}
		if one.Since.After(now) || one.Since.IsZero() {
			one.Since = now
		}
		id := health.PortID{Device: one.Device, Port: one.Port}
		state := State{Link: one.Link, Source: one.Source, Since: one.Since, Seen: now}
		if one.Kept {
			m.kept[id] = state
		} else {
			m.ports[id] = &port{State: state}
		}
	}
}
