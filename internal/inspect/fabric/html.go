package fabric

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
)

//go:embed fabric.html.tmpl
var page string

// fewNodes is the number of nodes up to which all groups are unfolded.
const fewNodes = 128

// WriteHTML writes the picture as one page that needs no script and no other file. All texts of others go through hide,
// which takes out what identifies.
func (p *Picture) WriteHTML(w io.Writer, hide func(string) string) error {
	said := func(s string) string { return text.Bound(hide(text.Terminal(s)), text.MaxForeign) }
	t, err := template.New("fabric").Funcs(template.FuncMap{
		"said": said, "lines": hide, "time": text.Time, "count": text.Count,
		"tree": func(n lists.NodeTopology) (template.HTML, error) { return tree(n, said) },
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("read the template of the page: %w", err)
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// tree draws the PCIe tree of a node. Package topology escapes the texts.
func tree(n lists.NodeTopology, said func(string) string) (template.HTML, error) {
	for _, d := range n.Devices {
		d.Name, d.Note = said(d.Name), said(d.Note)
	}
	var out strings.Builder
	err := n.WriteSVG(&out)
	return template.HTML(out.String()), err
}

// Grid is the width of the columns, for the style sheet.
func (p *Picture) Grid() template.CSS {
	var out strings.Builder
	for _, c := range p.Columns {
		fmt.Fprintf(&out, " calc(var(--w)*%d)", min(c.Width, 4))
	}
	return template.CSS(out.String())
}

// States are the states of the legend: those that no HCA has are left out, unless a reader expects them.
func (p *Picture) States() (out []State) {
	for s := range states {
		if p.Counts[s] > 0 || s != Excluded {
			out = append(out, s)
		}
	}
	return out
}

// Open reports whether a group is unfolded.
func (p *Picture) Open(g *Group) bool {
	nodes := 0
	for _, g := range p.Groups {
		nodes += len(g.Rows)
	}
	return nodes <= fewNodes || g.Bad()
}

// HCAs returns the HCAs of the node, in the order of its cells.
func (r *Row) HCAs() []*HCA { return slices.Concat(r.Cells...) }
