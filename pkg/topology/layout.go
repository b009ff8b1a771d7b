package topology

import "strings"

// The layout of the picture: boxes within boxes, in whole pixels, so that it is
// the same everywhere. A box is as large as its text and what it holds.

const (
	deviceHeight = 52
	titleHeight  = 22
	gap          = 10
	// maxWidth is where a row of boxes ends and the next one begins: about what a
	// page of a document shows without scrolling.
	maxWidth = 1120
	// maxStack is how many devices stand above each other before a second column.
	maxStack = 6
	// largeText and smallText are font sizes.
	largeText = 13
	smallText = 11
)

// box is a rectangle of the picture. Its position is relative to the box around it.
type box struct {
	style      string   // class of the style sheet
	lines      []string // the first is the title
	badge      string   // at the right end of the title
	tip        string   // shown while the pointer rests on it
	x, y, w, h int
	inner      []*box
}

// textWidth estimates from above how wide a text is set, since a picture cannot
// ask for the fonts of its reader: the mean character of the widest usual sans
// serif (DejaVu Sans) takes 0.62 of the font size.
func textWidth(s string, size int) int {
	return len([]rune(s))*size*62/100 + 1
}

// arrange sizes a box and places what it holds, from the inside out.
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
		size := smallText
		if i == 0 {
			size = largeText
			if b.badge != "" {
				b.w = textWidth(b.badge, smallText) + gap
			}
		}
		if i > 0 {
			b.w = max(b.w, textWidth(line, size)+2*gap)
			continue
		}
		b.w += textWidth(line, size) + 2*gap
	}
	b.h = deviceHeight
}

// flow places the inner boxes: devices in columns, then the others in rows, and
// returns the right and lower edge of what is used.
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

// stretch gives the boxes of one row the height of the tallest.
func stretch(row []*box) {
	tallest := map[int]int{}
	for _, b := range row {
		tallest[b.y] = max(tallest[b.y], b.h)
	}
	for _, b := range row {
		b.h = tallest[b.y]
	}
}

// picture makes the boxes of a topology, one for each NUMA node, below each other
// and of one width.
func (t *Topology) picture() []*box {
	var out []*box
	for _, numa := range t.NUMANodes {
		b := &box{style: "numa", lines: []string{numa.title()}, tip: numa.title()}
		for _, root := range numa.Roots {
			b.inner = append(b.inner, root.box())
		}
		out = append(out, b)
	}
	if soft := t.Software(); len(soft) > 0 {
		b := &box{style: "numa", lines: []string{"Software HCAs"}, tip: "HCAs without hardware of their own"}
		for _, d := range soft {
			b.inner = append(b.inner, d.box())
		}
		out = append(out, b)
	}
	y, width := 0, 0
	for _, b := range out {
		b.arrange()
		b.y = y
		y += b.h + gap
		width = max(width, b.w)
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
	tip := "PCIe " + string(n.Kind) + " " + n.Name
	if len(n.Via) > 0 {
		tip += ", below port " + strings.Join(n.Via, " ")
	}
	b := &box{style: string(n.Kind), lines: []string{title}, tip: tip}
	for _, c := range n.Children {
		b.inner = append(b.inner, c.box())
	}
	return b
}

func (d *Device) box() *box {
	b := &box{style: string(d.Kind), badge: d.folded(), lines: []string{d.Name}}
	tip := append([]string{d.Name, d.Address}, d.traits()...)
	if d.Kind == HCA {
		b.lines = append(b.lines, strings.Join(compact([]string{d.Port.rate(), protocolNames[d.Port.Protocol]}), " "))
		tip = append(tip, d.vendor())
		if d.Port.RateMbps == 0 {
			b.style += " idle"
		}
	} else {
		b.lines = append(b.lines, d.vendor())
	}
	where := d.Address
	if where == "" {
		where = d.Port.Netdev
	}
	b.lines = append(b.lines, where)
	if len(d.Bridges) > 0 {
		tip = append(tip, "below "+strings.Join(d.Bridges, " "))
	}
	b.tip = strings.Join(compact(tip), ", ")
	return b
}
