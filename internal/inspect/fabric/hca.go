package fabric

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/traffic"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// State is what the picture shows of an HCA: the last one that is true of it. One that a known job holds is Held, even
// if its state was not seen. One of an incomplete pool is NotSeen.
type State int

// The states.
const (
	Free State = iota
	Held
	Excluded
	Degraded
	Miswired
	Tainted
	Drained
	NotSeen
	states
)

// Counts counts HCAs by their states.
type Counts [states]int

// looks are the sign, the name and the meaning of each state. The sign of a held HCA is the number of its job.
var looks = [states]struct{ Sign, Name, Means string }{
	Free:     {"·", "free", "a claim could get it now"},
	Held:     {"1", "held", "by the job of that number"},
	Excluded: {"–", "excluded", "a claim has another part of the card"},
	Degraded: {"~", "degraded", "a taint informs, and keeps no claim away"},
	Miswired: {"≠", "miswired", "a port leads elsewhere than planned"},
	Tainted:  {"!", "tainted", "a taint keeps new claims away"},
	Drained:  {"D", "drained", "somebody took it out of service"},
	NotSeen:  {"?", "not seen", "what decides was not seen"},
}

func (s State) String() string { return looks[s].Name }

// Sign is what a cell shows beside its colour.
func (s State) Sign() string { return looks[s].Sign }

// Means explains the state.
func (s State) Means() string { return looks[s].Means }

// Class is the name of the state in the style sheet.
func (s State) Class() string { return strings.ReplaceAll(looks[s].Name, " ", "") }

// Bad reports whether somebody should look at the HCA.
func (s State) Bad() bool { return s >= Degraded }

// miswired is the key of the driver's taint for a port that leads elsewhere than planned.
const miswired = rdma.Domain + "/miswired"

// HCA is a cell of the picture.
type HCA struct {
	model.HCA
	State State
	// Part says that it is a VF or an SF of another HCA.
	Part bool
	// Room says that claims have shares of it, and one more could get some.
	Room bool
	// Why has its taints, with their times, or why it was not seen.
	Why []string
	// Jobs hold it or shares of it. Claims are theirs.
	Jobs   []*Job
	Claims []string
	// Test is what the last test says of it, nil for nothing. Tested is its time.
	Test   *traffic.Verdict
	Tested time.Time
}

// Kernel is the kernel's name of the HCA, or that of its device.
func (h *HCA) Kernel() string { return cmp.Or(h.IBDev, h.Name) }

// Sign is the sign of the state, and the number of the job that holds the HCA.
func (h *HCA) Sign() string {
	sign := h.State.Sign()
	if h.State == Held || len(h.Jobs) == 0 {
		sign = strings.Trim(sign, looks[Held].Sign)
	}
	switch {
	case len(h.Jobs) == 1:
		sign += fmt.Sprint(h.Jobs[0].Number)
	case len(h.Jobs) > 1:
		sign += "*"
	}
	return sign
}

// Class names the classes of the style sheet: one for the state or the colour of the job, and one for each mark.
func (h *HCA) Class() string {
	class := h.State.Class()
	if h.State == Held {
		class = h.Jobs[0].Class()
	}
	for _, mark := range []struct {
		name string
		set  bool
	}{{"room", h.Room}, {"part", h.Part}, {"doubt", h.Doubted()}} {
		if mark.set {
			class += " " + mark.name
		}
	}
	return class
}

// Holders names the jobs that hold the HCA, and their claims.
func (h *HCA) Holders() string {
	var names []string
	for _, j := range h.Jobs {
		names = append(names, j.Name)
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf("%s (claim %s)", model.Few(names, 3), model.Few(h.Claims, 2))
}

// Result is what the last test says, "" for nothing.
func (h *HCA) Result() string {
	if h.Test == nil {
		return ""
	}
	return h.Test.Recorded() + ", " + text.Time(h.Tested)
}

// Doubted reports whether the last test measured the HCA, and did not find it good.
func (h *HCA) Doubted() bool {
	return h.Test != nil && (h.Test.State == traffic.Slow || h.Test.State == traffic.Unclear)
}

// Tip is the text that a browser shows while the pointer rests on the cell.
func (h *HCA) Tip() string {
	parts := []string{h.Kernel() + ": " + h.State.String()}
	parts = append(parts, h.Why...)
	if h.Leaf != "" {
		parts = append(parts, "leaf "+h.Leaf)
	}
	for _, more := range []string{h.Holders(), h.Result()} {
		if more != "" {
			parts = append(parts, more)
		}
	}
	return strings.Join(parts, "; ")
}

// newHCA is an HCA without a state: who holds it, its taints and its test.
func (b *builder) newHCA(p *model.Published) *HCA {
	h := &HCA{HCA: p.HCA, Part: !p.Whole()}
	if b.LeafName != nil {
		h.Leaf = b.LeafName(h.Leaf)
	}
	if r := b.Tests[p.Node]; r != nil {
		h.Test, h.Tested = r.Of(p.Name), r.Time
	}
	for _, d := range p.Devices {
		for _, claim := range b.view.Holdings.Names(d.ID) {
			h.Claims = model.AppendNew(h.Claims, claim)
			for _, j := range b.jobsOf(claim) {
				h.Jobs = model.AppendNew(h.Jobs, j)
			}
		}
	}
	for _, j := range h.Jobs {
		j.HCAs++
		j.nodes[h.Node] = true
	}
	for _, t := range p.Taints() {
		h.Why = append(h.Why, since(t))
	}
	slices.Sort(h.Why)
	return h
}

// hca is an HCA with its state.
func (b *builder) hca(ctx context.Context, p *model.Published) (*HCA, error) {
	h := b.newHCA(p)
	var devices []model.DeviceState
	for _, d := range p.Devices {
		state, err := b.view.State(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("find the state of %s: %w", h.String(), err)
		}
		devices = append(devices, state)
	}
	h.State = stateOf(devices)
	if h.State == Free && b.Cluster.Unread.Has(model.Rules) {
		h.State, h.Why = NotSeen, append(h.Why, "a DeviceTaintRule may keep claims away")
	}
	h.Room = h.State == Free && len(h.Jobs) > 0
	if len(h.Jobs) > 0 {
		h.State = Held
	}
	for _, t := range p.Taints() {
		h.State = max(h.State, taintState(t))
		h.Room = h.Room && !t.KeepsAway()
	}
	return h, nil
}

// stateOf is the state of an HCA whose devices have these states, if nobody holds it.
func stateOf(devices []model.DeviceState) State {
	switch {
	case slices.Contains(devices, model.DeviceUnknown):
		return NotSeen
	case slices.Contains(devices, model.DeviceFree), slices.Contains(devices, model.DeviceShared):
		return Free
	case slices.Contains(devices, model.DeviceExcluded):
		return Excluded
	}
	return NotSeen // the allocator gives it to no claim, and nobody has it
}

// jobsOf returns the jobs that hold a claim.
func (b *builder) jobsOf(claim string) (out []*Job) {
	names := b.owners[claim]
	if names == nil {
		names = []string{"claim " + claim}
	}
	for _, name := range names {
		if b.jobs[name] == nil {
			b.jobs[name] = &Job{Name: name, nodes: map[string]bool{}}
		}
		out = append(out, b.jobs[name])
	}
	return out
}

func taintState(t model.Taint) State {
	switch {
	case t.Drain != nil && t.KeepsAway():
		return Drained
	case t.Key == miswired:
		return Miswired
	case t.KeepsAway():
		return Tainted
	case t.OfDriver():
		return Degraded
	}
	return Free
}

// since names a taint with its time.
func since(t model.Taint) string {
	at := t.TimeAdded
	if t.Drain != nil {
		at = &t.Drain.Since
	}
	if at.IsZero() {
		return t.String()
	}
	return t.String() + " since " + text.Time(at.Time)
}
