package fabric

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
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
	var out bytes.Buffer // no half page
	if err := t.Execute(&out, p); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// tree draws the PCIe tree of a node, with what said makes of its texts. Package topology escapes them.
func tree(n lists.NodeTopology, said func(string) string) (template.HTML, error) {
	var drawn topology.Topology
	devices := map[*topology.Device]*topology.Device{}
	for _, d := range n.Devices {
		copied := *d
		copied.Name, copied.Address, copied.Note = said(d.Name), said(d.Address), said(d.Note)
		if d.Port != nil {
			port := *d.Port
			port.Netdev, copied.Port = said(port.Netdev), &port
		}
		devices[d] = &copied
		drawn.Devices = append(drawn.Devices, &copied)
	}
	for _, numa := range n.NUMANodes {
		numa.Roots = branches(numa.Roots, devices, said)
		drawn.NUMANodes = append(drawn.NUMANodes, numa)
	}
	var out strings.Builder
	err := drawn.WriteSVG(&out)
	return template.HTML(out.String()), err
}

// branches copies nodes of a tree, with what said makes of their names.
func branches(nodes []*topology.Node, devices map[*topology.Device]*topology.Device,
	said func(string) string) (out []*topology.Node) {
	for _, n := range nodes {
		out = append(out, &topology.Node{
			Kind: n.Kind, Name: said(n.Name), Children: branches(n.Children, devices, said), Device: devices[n.Device],
		})
	}
	return out
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
	for _, other := range p.Groups {
		nodes += len(other.Rows)
	}
	return nodes <= fewNodes || g.Bad()
}

// HCAs returns the HCAs of the node, in the order of its cells.
func (r *Row) HCAs() []*HCA { return slices.Concat(r.Cells...) }
