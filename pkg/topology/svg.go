package topology

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// StyleSheet is the style sheet of a picture. It sets no background, and works on any: text outside of
// filled boxes is a grey that is readable on white and on black, and lines and fills of boxes are
// shades of it (TestContrast).
const StyleSheet = `
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:11px;fill:#707b87}
.t{font-size:13px;font-weight:600}
rect{stroke:#707b87;stroke-opacity:.6;fill:#707b87;fill-opacity:.05;rx:6px}
.root>rect{fill:none;stroke-dasharray:4 3}
.switch>rect,.bridge>rect{fill-opacity:.09}
.gpu>rect{fill:#2a7d3c;fill-opacity:1;stroke:none}
.accelerator>rect{fill:#8045c9;fill-opacity:1;stroke:none}
.hca>rect{fill:#1c66d1;fill-opacity:1;stroke:none}
.idle>rect{fill:#5b6470}
.gpu text,.accelerator text,.hca text{fill:#fff}
`

// margin is around the picture, headHeight above it and footHeight below.
const (
	margin     = 12
	headHeight = 34
	footHeight = 30
)

// WriteSVG draws the topology as a picture. It needs no script, font or other file, and is readable on
// dark and on light pages. Boxes nest like the PCIe tree.
func (t *Topology) WriteSVG(w io.Writer) error {
	boxes := t.picture()
	title, summary := "PCIe topology", escape(t.summary())
	summaryAt := textWidth(title, largeText) + 2*gap
	width, height := max(t.writeKey(io.Discard, 0), summaryAt+textWidth(t.summary(), smallText)), 0
	for _, b := range boxes {
		width, height = max(width, b.w), b.y+b.h
	}
	bw := bufio.NewWriter(w)
	fmt.Fprintf(bw, `<svg xmlns="http://www.w3.org/2000/svg" role="img" `+
		`width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">`+"\n",
		width+2*margin, height+2*margin+headHeight+footHeight)
	fmt.Fprintf(bw, "<title>PCIe topology: %s</title>\n<style>%s</style>\n", summary, StyleSheet)
	fmt.Fprintf(bw, `<g transform="translate(%d %d)">`+"\n", margin, margin)
	fmt.Fprintf(bw, `<text class="t" y="16">%s</text><text x="%d" y="16">%s</text>`+"\n", title, summaryAt, summary)
	fmt.Fprintf(bw, `<g transform="translate(0 %d)">`+"\n", headHeight)
	for _, b := range boxes {
		b.write(bw, 0, 0)
	}
	fmt.Fprintln(bw, "</g>")
	t.writeKey(bw, headHeight+height+footHeight-8)
	fmt.Fprintln(bw, "</g>\n</svg>")
	return bw.Flush()
}

// write draws a box at its position within the box at x, y.
func (b *box) write(w io.Writer, x, y int) {
	x, y = x+b.x, y+b.y
	fmt.Fprintf(w, `<g class="%s"><title>%s</title><rect x="%d" y="%d" width="%d" height="%d"/>`,
		b.style, escape(b.tip), x, y, b.w, b.h)
	for i, line := range b.lines {
		class := ""
		if i == 0 && (len(b.inner) == 0 || b.style == "numa") {
			class = ` class="t"`
		}
		fmt.Fprintf(w, `<text%s x="%d" y="%d">%s</text>`, class, x+gap, y+17+i*14, escape(line))
	}
	if b.badge != "" {
		fmt.Fprintf(w, `<text text-anchor="end" x="%d" y="%d">%s</text>`, x+b.w-gap, y+17, escape(b.badge))
	}
	if len(b.inner) > 0 {
		fmt.Fprintln(w)
	}
	for _, c := range b.inner {
		c.write(w, x, y)
	}
	fmt.Fprintln(w, "</g>")
}

// key explains the colours.
var key = []struct{ style, text string }{
	{"gpu", "GPU"}, {"accelerator", "accelerator"}, {"hca", "HCA"}, {"hca idle", "HCA without an active port"},
}

// writeKey explains the colours that the picture uses, and returns the width of the text.
func (t *Topology) writeKey(w io.Writer, y int) int {
	x := 0
	for _, k := range key {
		if t.shows(k.style) {
			fmt.Fprintf(w, `<g class="%s"><rect x="%d" y="%d" width="12" height="12"/></g><text x="%d" y="%d">%s</text>`+"\n",
				k.style, x, y-10, x+18, y, k.text)
			x += 18 + textWidth(k.text, smallText) + 2*gap
		}
	}
	return x
}

func (t *Topology) shows(style string) bool {
	return slices.ContainsFunc(t.Devices, func(d *Device) bool { return d.box().style == style })
}

// escape makes a text safe in XML, which allows no control characters.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text.Terminal(s))) // a Builder does not fail
	return b.String()
}
