package topology

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
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
		tw.name = max(tw.name, len(quote.Terminal(d.Name)))
		tw.address = max(tw.address, len(quote.Terminal(d.Address)))
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
		return string(n.Kind) + " " + quote.Terminal(n.Name)
	}
	line := fmt.Sprintf("%-*s  %-*s  %s",
		tw.name, quote.Terminal(d.Name), tw.address, quote.Terminal(d.Address), strings.Join(d.traits(), ", "))
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

// write writes the table. The names determine the widths, because distances have at
// most four characters.
func (m *Matrix) write(w io.Writer, rows []*Device) {
	first := 0
	for _, name := range m.Rows {
		first = max(first, len(quote.Terminal(name)))
	}
	line := func(name string, cells []string, numa string) {
		fmt.Fprintf(w, "%-*s", first, quote.Terminal(name))
		for i, c := range cells {
			fmt.Fprintf(w, "  %-*s", max(4, len(quote.Terminal(m.Columns[i]))), quote.Terminal(c))
		}
		fmt.Fprintf(w, "  %s\n", numa)
	}
	line("", m.Columns, "NUMA")
	for i, row := range m.Cells {
		cells := make([]string, len(row))
		for j, d := range row {
			cells[j] = string(d)
		}
		numa := "?"
		if n := rows[i].NUMANode; n != nil {
			numa = strconv.Itoa(*n)
		}
		line(m.Rows[i], cells, numa)
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
