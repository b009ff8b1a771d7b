// Package leaf derives from several sources to which leaf switch each port of a host's HCAs is connected. It does so
// over time: a value that the scheduler sees does not change with every announcement.
//
// A wrong leaf is worse than none: it puts the pods of a job apart, and nobody notices. So a value that is ambiguous,
// too long or too old is absent, and a reason says why.
//
//	sources ─► Resolve: a Reading for each port ─► Model: what counts, for 10 minutes ─► View, for each HCA
//
// VFs and SFs have the leaf of their PF's port, and a bond that of its members, if they agree. While a claim holds an
// HCA, its interface may be in a pod, where no source sees it: then its leaf stays. See docs/adr/0057.
//
// The package reads nothing and has no clock: the caller passes what it has read, with the time.
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
	// linger is how long a link counts after it was seen last, although the sources say something else.
	linger = 10 * time.Minute
	// hold is how long it counts while a source cannot be read.
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

// Model keeps the links of the physical ports of one host. It is for one goroutine at a time.
type Model struct {
	ports   map[health.PortID]State
	unsaved bool
}

// New makes a model without ports.
func New() *Model { return &Model{ports: map[health.PortID]State{}} }

// Observe takes readings of ports, and the names of the HCAs that claims hold. A port that is not among the readings
// stays as it was.
func (m *Model) Observe(readings map[health.PortID]Reading, held []string, now time.Time) {
	for id, r := range readings {
		was := m.ports[id]
		m.ports[id] = was.next(r, slices.Contains(held, id.Device), now)
		m.unsaved = m.unsaved || m.ports[id].Link != was.Link
	}
}

// next returns the state of a port after a reading. A port without a link takes what is seen at once. While a claim
// holds the HCA, its interface may be in a pod, where no source sees it: then the link stays.
func (s State) next(r Reading, held bool, now time.Time) State {
	out := State{Link: r.Link, Source: r.Source, Since: now, Seen: now, Why: r.Why, Planned: r.Planned}
	if r.Link == s.Link {
		out.Since = s.Since
		return out
	}
	counts, end := linger, "until "
	if r.Failed {
		counts = hold
	}
	end += text.Time(s.Seen.Add(counts))
	if held && r.Link == (Link{}) {
		counts, end = now.Sub(s.Seen)+1, "while a claim holds the HCA"
	}
	if s.Link == (Link{}) || now.Sub(s.Seen) >= counts {
		return out
	}
	out.Link, out.Source, out.Since, out.Seen = s.Link, s.Source, s.Since, s.Seen
	out.Why = strings.TrimPrefix(fmt.Sprintf("%s; %s is seen instead of %s, which was seen last at %s and counts %s",
		r.Why, orNothing(r.Link), s.Link, text.Time(s.Seen), end), "; ")
	return out
}

func orNothing(l Link) string {
	if l == (Link{}) {
		return "nothing"
	}
	return l.String()
}

// View returns the links of the HCAs of a snapshot.
func (m *Model) View(snap *rdma.Snapshot) *View {
	v := &View{ports: map[health.PortID]State{}, first: map[string]health.PortID{}}
	pfs := physicalOf(snap)
	for i := range snap.HCAs {
		h := &snap.HCAs[i]
		for p := range h.OwnPorts() {
			id := health.PortID{Device: h.Name, Port: p.Number}
			if _, ok := v.first[h.Name]; !ok {
				v.first[h.Name] = id
			}
			v.ports[id] = m.ports[pfs.portOf(h, p.Number)]
		}
	}
	return v
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

// Past is the link of a physical port that a model leaves to the next instance of the driver in this boot.
type Past struct {
	Device   string    `json:"device"`
	Port     int       `json:"port"`
	Leaf     string    `json:"leaf"`
	LeafPort string    `json:"leafPort,omitempty"`
	Fabric   string    `json:"fabric,omitempty"`
	Source   Source    `json:"source"`
	Since    time.Time `json:"since"`
}

// Past returns what the model leaves, and whether it has changed since the last call.
func (m *Model) Past() ([]Past, bool) {
	if !m.unsaved {
		return nil, false
	}
	m.unsaved = false
	out := []Past{}
	for id, s := range m.ports {
		if s.Leaf != "" {
			out = append(out, Past{
				Device: id.Device, Port: id.Port, Leaf: s.Leaf, LeafPort: s.Link.Port, Fabric: s.Fabric,
				Source: s.Source, Since: s.Since,
			})
		}
	}
	return out, true
}

// Recall restores what an earlier instance of the driver has left. Call it before the first observation. A link that
// cannot be published is left out.
func (m *Model) Recall(past []Past, now time.Time) {
	for _, one := range past {
		link := Link{Leaf: one.Leaf, Port: one.LeafPort, Fabric: one.Fabric}
		if check(link) == nil {
			id := health.PortID{Device: one.Device, Port: one.Port}
			m.ports[id] = State{Link: link, Source: one.Source, Since: one.Since, Seen: now}
		}
	}
}
