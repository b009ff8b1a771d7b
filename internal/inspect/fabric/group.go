package fabric

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// maxGroup is how many nodes stand below one header.
const maxGroup = 64

// Group has nodes whose HCAs are connected to the same leaf switches.
type Group struct {
	// Leaves are the leaf switches by column, "" where the nodes have none or several.
	Leaves []string
	Rows   []*Row
	Counts Counts
}

// Name names the first and the last node.
func (g *Group) Name() string {
	if len(g.Rows) == 1 {
		return g.Rows[0].Name
	}
	return fmt.Sprintf("%s … %s", g.Rows[0].Name, g.Rows[len(g.Rows)-1].Name)
}

// Bad reports whether somebody should look at an HCA or a driver of the group. A node without an HCA is well.
func (g *Group) Bad() bool {
	return slices.ContainsFunc(g.Rows, func(r *Row) bool { return !r.NoHCA && len(r.Notes()) > 0 })
}

// group puts nodes with the same leaf switches together. The largest groups come first, and a smaller one joins the
// first with which it agrees.
func (b *builder) group() {
	same := map[string]*Group{}
	for _, r := range b.rows {
		of := leaves(r)
		key := fmt.Sprintf("%q", of)
		if same[key] == nil {
			same[key] = &Group{Leaves: of}
		}
		same[key].Rows = append(same[key].Rows, r)
	}
	var groups []*Group
	for _, key := range slices.SortedFunc(maps.Keys(same), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(same[y].Rows), len(same[x].Rows)), cmp.Compare(x, y))
	}) {
		g := same[key]
		i := slices.IndexFunc(groups, func(other *Group) bool { return agree(g.Leaves, other.Leaves) })
		if i < 0 {
			groups = append(groups, g)
			continue
		}
		groups[i].Rows = append(groups[i].Rows, g.Rows...)
	}
	for _, g := range groups {
		slices.SortFunc(g.Rows, func(x, y *Row) int { return cmp.Compare(x.Name, y.Name) })
		for part := range slices.Chunk(g.Rows, maxGroup) {
			b.Groups = append(b.Groups, newGroup(g.Leaves, part))
		}
	}
	slices.SortFunc(b.Groups, func(x, y *Group) int { return cmp.Compare(x.Rows[0].Name, y.Rows[0].Name) })
}

// newGroup counts the HCAs of a group.
func newGroup(leaves []string, rows []*Row) *Group {
	g := &Group{Leaves: leaves, Rows: rows}
	for _, r := range rows {
		for _, h := range r.HCAs() {
			g.Counts[h.State]++
		}
	}
	return g
}

// leaves returns the leaf switch of each column of a node.
func leaves(r *Row) (out []string) {
	for _, cell := range r.Cells {
		var names []string
		for _, h := range cell {
			names = model.AppendNew(names, h.Leaf)
		}
		if len(names) != 1 {
			names = []string{""}
		}
		out = append(out, names[0])
	}
	return out
}

// agree reports whether more than half of the known leaf switches of a node are those of another.
func agree(node, other []string) bool {
	known, equal := 0, 0
	for i, leaf := range node {
		if leaf != "" {
			known++
		}
		if leaf != "" && leaf == other[i] {
			equal++
		}
	}
	return 2*equal > known
}

// Jobs are those that hold HCAs of the node.
func (r *Row) Jobs() (out []*Job) {
	for _, h := range r.HCAs() {
		for _, j := range h.Jobs {
			out = model.AppendNew(out, j)
		}
	}
	return out
}

// Note is what is wrong with HCAs of a node.
type Note struct {
	State State
	HCAs  string
	Why   string
}

// Notes are what is wrong on a node, the worst first.
func (r *Row) Notes() (out []Note) {
	names := map[Note][]string{}
	for _, h := range r.HCAs() {
		if n := (Note{State: h.State, Why: strings.Join(h.Why, "; ")}); h.State.Bad() {
			names[n] = append(names[n], h.Kernel())
		}
	}
	for n, of := range names {
		n.HCAs = model.Few(of, 3)
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b Note) int { return cmp.Or(cmp.Compare(b.State, a.State), cmp.Compare(a.HCAs, b.HCAs)) })
	if word := r.DriverWord(); word != "Ready" && r.Name != noNode {
		out = append([]Note{{State: NotSeen, HCAs: "driver " + word, Why: r.Why}}, out...)
	}
	return out
}
