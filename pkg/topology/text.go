package topology

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// Lines are the characters that a tree is drawn with.
type Lines struct{ tee, corner, pipe, blank, join string }

// The two sets of characters.
var (
	BoxLines   = Lines{"├─ ", "└─ ", "│  ", "   ", " ─ "}
	ASCIILines = Lines{"|- ", "`- ", "|  ", "   ", " - "}
)

// WriteTree draws the tree. A root with only a switch below it shares the line of
// the switch.
func (t *Topology) WriteTree(w io.Writer, lines Lines) error {
	tw := &treeWriter{Writer: bufio.NewWriter(w), lines: lines}
	for _, d := range t.Devices {
		tw.name = max(tw.name, len(text.Terminal(d.Name)))
		tw.address = max(tw.address, len(text.Terminal(d.Address)))
	}
	for _, s := range t.sections() {
		fmt.Fprintln(tw, s.title)
		tw.children(s.nodes, "")
	}
	return tw.Flush()
}

// treeWriter keeps the widths of the columns of device lines.
type treeWriter struct {
	*bufio.Writer
	lines         Lines
	name, address int
}

func (tw *treeWriter) children(nodes []*Node, indent string) {
	for i, n := range nodes {
		lead, below := tw.lines.tee, tw.lines.pipe
		if i == len(nodes)-1 {
			lead, below = tw.lines.corner, tw.lines.blank
		}
		label := tw.label(n)
		for n.Kind == NodeRoot && len(n.Children) == 1 && n.Children[0].Device == nil {
			n = n.Children[0]
			label += tw.lines.join + tw.label(n)
		}
		fmt.Fprintln(tw, indent+lead+label)
		tw.children(n.Children, indent+below)
	}
}

func (tw *treeWriter) label(n *Node) string {
	d := n.Device
	if d == nil {
		return string(n.Kind) + " " + text.Terminal(n.Name)
	}
	line := fmt.Sprintf("%-*s  %-*s  %s",
		tw.name, text.Terminal(d.Name), tw.address, text.Terminal(d.Address), strings.Join(d.traits(), ", "))
	return strings.TrimRight(line, " ")
}

// maxSquare is the maximum number of devices in a square text matrix: 24
// columns still fit a wide terminal.
const maxSquare = 24

// WriteMatrix writes the distances as a table with a legend. With more than 24
// devices the table has only HCAs against accelerators. It omits software HCAs, which
// have no position.
func (t *Topology) WriteMatrix(w io.Writer) error {
	devices := t.where(func(d *Device) bool { return d.Address != "" })
	if len(devices) == 0 {
		_, err := fmt.Fprintln(w, "No device sits on a PCI function, so there are no distances.")
		return err
	}
	rows, columns := devices, devices
	accelerators := t.Accelerators()
	if len(devices) > maxSquare && len(accelerators) > 0 && len(accelerators) < len(devices) {
		rows, columns = devices[len(accelerators):], accelerators
	}
	bw := bufio.NewWriter(w)
	m := NewMatrix(rows, columns)
	m.write(bw, rows)
	m.writeLegend(bw)
	return bw.Flush()
}

// tableWidth is the width of a table. The matrix of a host with 8 GPUs and 12 HCAs fits. A wider one is written in
// parts.
const tableWidth = 160

// write writes the table, or several tables below each other if it is wide. Every table has some of the columns, and
// the last one has the NUMA nodes.
func (m *Matrix) write(w io.Writer, rows []*Device) {
	first := 0
	for _, name := range m.Rows {
		first = max(first, len(text.Terminal(name)))
	}
	for from := 0; from < len(m.Columns); {
		to, width := from, first+len("  NUMA")
		for to < len(m.Columns) && (to == from || width+m.width(to) <= tableWidth) {
			width += m.width(to)
			to++
		}
		if from > 0 {
			fmt.Fprintln(w)
		}
		m.writePart(w, rows, first, from, to)
		from = to
	}
}

// width is the width of a column with the space before it. The names determine it, because distances have at most four
// characters.
func (m *Matrix) width(column int) int { return 2 + max(4, len(text.Terminal(m.Columns[column]))) }

// writePart writes the columns [from, to). first is the width of the names of the rows.
func (m *Matrix) writePart(w io.Writer, rows []*Device, first, from, to int) {
	line := func(name string, cell func(column int) string, numa string) {
		out := fmt.Sprintf("%-*s", first, text.Terminal(name))
		for i := from; i < to; i++ {
			out += fmt.Sprintf("  %-*s", m.width(i)-2, text.Terminal(cell(i)))
		}
		if to < len(m.Columns) {
			fmt.Fprintln(w, strings.TrimRight(out, " "))
			return
		}
		fmt.Fprintf(w, "%s  %s\n", out, numa)
	}
	line("", func(i int) string { return m.Columns[i] }, "NUMA")
	for i, row := range m.Cells {
		numa := "?"
		if n := rows[i].NUMANode; n != nil {
			numa = strconv.Itoa(*n)
		}
		line(m.Rows[i], func(j int) string { return string(row[j]) }, numa)
	}
}

// writeLegend explains the distances in the table.
func (m *Matrix) writeLegend(w io.Writer) {
	fmt.Fprintln(w)
	for _, l := range legend {
		if slices.ContainsFunc(m.Cells, func(row []Distance) bool { return slices.Contains(row, l.Distance) }) {
			fmt.Fprintf(w, "%-4s  %s\n", l.Distance, l.text)
		}
	}
}
