package topology

import "strings"

// The layout of the picture: nested boxes, in whole pixels, so that it is the same on
// every machine. A box is as large as its text and its inner boxes need.

const (
	deviceHeight = 52
	titleHeight  = 22
	gap          = 10
	// maxWidth is the maximum width of a row of boxes, about what a page of a document
	// shows without scrolling.
	maxWidth = 1120
	// maxStack is the maximum number of devices in a column.
	maxStack = 6
	// largeText and smallText are font sizes.
	largeText = 13
	smallText = 11
)

// box is a rectangle of the picture. Its position is relative to the outer box.
type box struct {
	style      string   // class of the style sheet
	lines      []string // the first is the title
	badge      string   // at the right end of the title
	tip        string   // shown while the pointer rests on it
	x, y, w, h int
	inner      []*box
}

// textWidth returns an upper estimate of a text's width, because the viewer's fonts are
// unknown: the mean character of the widest usual sans serif (DejaVu Sans) takes 0.62
// of the font size.
func textWidth(s string, size int) int {
	return len([]rune(s))*size*62/100 + 1
}

// arrange computes the size of a box and the positions of its inner boxes, innermost first.
func (b *box) arrange() {
	b.measureText()
	if len(b.inner) == 0 {
		return
	}
	for _, c := range b.inner {
		c.arrange()
	}
	right, bottom := b.flow()
	b.w = max(b.w, right+gap)
	b.h = bottom + gap
	if len(b.inner) <= maxStack && len(b.inner[len(b.inner)-1].inner) == 0 {
		for _, c := range b.inner { // one column of devices: as wide as the box
			c.w = b.w - 2*gap
		}
	}
}

func (b *box) measureText() {
	for i, line := range b.lines {
		switch {
		case i > 0:
			b.w = max(b.w, textWidth(line, smallText)+2*gap)
		case b.badge != "":
			b.w = textWidth(b.badge, smallText) + gap + textWidth(line, largeText) + 2*gap
		default:
			b.w = textWidth(line, largeText) + 2*gap
		}
	}
	b.h = deviceHeight
}

// flow places the inner boxes: devices in columns, then the others in rows. It
// returns the right and lower edge of the used area.
func (b *box) flow() (right, bottom int) {
	devices, others := b.split()
	x, y, tallest := gap, titleHeight+gap/2, 0
	place := func(c *box) {
		if x > gap && x+c.w > maxWidth {
			x, y, tallest = gap, y+tallest+gap, 0
		}
		c.x, c.y = x, y
		x, tallest = x+c.w+gap, max(tallest, c.h)
		right, bottom = max(right, c.x+c.w), max(bottom, c.y+c.h)
	}
	for _, column := range columns(devices) {
		place(column)
		for _, d := range column.inner {
			d.x, d.y = d.x+column.x, d.y+column.y
		}
	}
	for _, c := range others {
		place(c)
	}
	stretch(others)
	return right, bottom
}

func (b *box) split() (devices, others []*box) {
	for _, c := range b.inner {
		if len(c.inner) == 0 {
			devices = append(devices, c)
		} else {
			others = append(others, c)
		}
	}
	return devices, others
}

// columns stacks devices in columns of equal width. A column is only for placing
// and is not drawn.
func columns(devices []*box) []*box {
	width := 0
	for _, d := range devices {
		width = max(width, d.w)
	}
	var out []*box
	for i, d := range devices {
		if i%maxStack == 0 {
			out = append(out, &box{w: width})
		}
		c := out[len(out)-1]
		if len(c.inner) > 0 {
			c.h += gap
		}
		d.w, d.y = width, c.h
		c.h += d.h
		c.inner = append(c.inner, d)
	}
	return out
}

// stretch sets the height of all boxes in a row to that of the tallest.
func stretch(row []*box) {
	tallest := map[int]int{}
	for _, b := range row {
		tallest[b.y] = max(tallest[b.y], b.h)
	}
	for _, b := range row {
		b.h = tallest[b.y]
	}
}

// picture makes the boxes of a topology, one below the other: one for each NUMA node, all of the
// same width.
func (t *Topology) picture() []*box {
	var out []*box
	y, width := 0, 0
	for _, s := range t.sections() {
		b := &box{style: "numa", lines: []string{s.title}, tip: s.tip, inner: boxes(s.nodes)}
		b.arrange()
		b.y = y
		y += b.h + gap
		width = max(width, b.w)
		out = append(out, b)
	}
	for _, b := range out {
		b.w = width
	}
	return out
}

func (n *Node) box() *box {
	if n.Device != nil {
		return n.Device.box()
	}
	title := string(n.Kind) + " " + n.Name
	tip := "PCIe " + title
	if len(n.Via) > 0 {
		tip += ", below port " + strings.Join(n.Via, " ")
	}
	return &box{style: string(n.Kind), lines: []string{title}, tip: tip, inner: boxes(n.Children)}
}

func boxes(nodes []*Node) []*box {
	var out []*box
	for _, n := range nodes {
		out = append(out, n.box())
	}
	return out
}

func (d *Device) box() *box {
	b := &box{style: string(d.Kind), badge: d.folded(), lines: []string{d.Name}}
	tip := append([]string{d.Name, d.Address}, d.traits()...)
	if d.Kind == HCA {
		b.lines = append(b.lines,
			strings.Join(compact([]string{d.Port.rate(), protocolNames[d.Port.Protocol]}), " "))
		tip = append(tip, d.vendor())
		if d.Port.RateMbps == 0 {
			b.style += " idle"
		}
	} else {
		b.lines = append(b.lines, d.vendor())
	}
	if d.Address != "" {
		b.lines = append(b.lines, d.Address)
	} else {
		b.lines = append(b.lines, d.Port.Netdev)
	}
	if len(d.Bridges) > 0 {
		tip = append(tip, "below "+strings.Join(d.Bridges, " "))
	}
	b.tip = strings.Join(compact(tip), ", ")
	return b
}
