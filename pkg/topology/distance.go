package topology

// Distance is the kind of path between two devices; see the package comment.
type Distance string

// The distances, nearest first.
const (
	Self    Distance = "X"
	PIX     Distance = "PIX"
	PXB     Distance = "PXB"
	PHB     Distance = "PHB"
	NODE    Distance = "NODE"
	SYS     Distance = "SYS"
	Unknown Distance = "?"
)

// legend explains the distances, in order.
var legend = []struct {
	Distance
	text string
}{
	{Self, "the same device"},
	{PIX, "at most one PCIe bridge: one switch, or one card"},
	{PXB, "several PCIe bridges, no host bridge"},
	{PHB, "a PCIe host bridge"},
	{NODE, "two host bridges of one NUMA node"},
	{SYS, "two NUMA nodes"},
	{Unknown, "two host bridges whose NUMA nodes are not known: NODE or SYS"},
}

// Between returns the distance of two devices. Software HCAs have no position, so their distance to
// any other device is Unknown.
func Between(a, b *Device) Distance {
	switch {
	case a == b:
		return Self
	case a.Address == "" || b.Address == "":
		return Unknown
	case a.Address == b.Address: // two HCAs of one function
		return PIX
	case a.Root == b.Root:
		return belowRoot(a.Bridges, b.Bridges)
	case a.NUMANode == nil || b.NUMANode == nil:
		return Unknown
	case *a.NUMANode == *b.NUMANode:
		return NODE
	}
	return SYS
}

// belowRoot returns the distance of two devices with the same root, from the bridges above each.
// After the last bridge that they share, one more bridge is the downstream port of the same
// switch. Any further bridge is another switch.
func belowRoot(a, b []string) Distance {
	shared := 0
	for shared < min(len(a), len(b)) && a[shared] == b[shared] {
		shared++
	}
	switch {
	case shared == 0:
		return PHB
	case max(len(a), len(b))-shared <= 1:
		return PIX
	}
	return PXB
}

// Matrix is a table of distances.
type Matrix struct {
	Rows    []string     `json:"rows"`
	Columns []string     `json:"columns"`
	Cells   [][]Distance `json:"cells"`
}

// NewMatrix returns the distances from each row to each column.
func NewMatrix(rows, columns []*Device) *Matrix {
	m := &Matrix{Rows: names(rows), Columns: names(columns), Cells: make([][]Distance, len(rows))}
	for i, r := range rows {
		m.Cells[i] = make([]Distance, len(columns))
		for j, c := range columns {
			m.Cells[i][j] = Between(r, c)
		}
	}
	return m
}

// Matrix returns the distances between all devices with a position.
func (t *Topology) Matrix() *Matrix {
	placed := t.where(func(d *Device) bool { return d.Address != "" })
	return NewMatrix(placed, placed)
}

func names(devices []*Device) []string {
	out := make([]string, len(devices))
	for i, d := range devices {
		out[i] = d.Name
	}
	return out
}

// Report is a topology with its distances, for programs.
type Report struct {
	*Topology
	Distances *Matrix `json:"distances"`
}

// Report returns the topology with the distances of all devices.
func (t *Topology) Report() Report { return Report{t, t.Matrix()} }
