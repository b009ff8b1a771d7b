package topology

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func load(t testing.TB, m *fixture.Machine, err error) *Topology {
	t.Helper()
	must.NoError(t, err)
	sys := m.FS(t)
	snap, err := rdma.Discover(sys)
	must.NoError(t, err)
	return Discover(sys, snap)
}

// TestLayout: every box holds its text and its inner boxes, and no two overlap.
func TestLayout(t *testing.T) {
	for _, name := range fixture.Names() {
		m, err := fixture.Load(name)
		checkBoxes(t, name, load(t, m, err).picture())
	}
	m, err := fixture.Large(1016)
	checkBoxes(t, "large", load(t, m, err).picture())
	checkBoxes(t, "many", many(500).picture())
}

func checkBoxes(t *testing.T, where string, boxes []*box) {
	t.Helper()
	for i, b := range boxes {
		at := where + " > " + b.lines[0]
		for _, line := range b.lines[1:] {
			test.LessEq(t, b.w, textWidth(line, smallText)+gap,
				test.Sprintf("%s: %q is wider than its box", at, line))
		}
		for _, c := range b.inner {
			if c.x < gap || c.y < titleHeight || c.x+c.w+gap > b.w || c.y+c.h+gap > b.h {
				t.Errorf("%s: %s at %d,%d, %d by %d, leaves its box of %d by %d", at, c.lines[0], c.x, c.y, c.w, c.h, b.w, b.h)
			}
		}
		for _, other := range boxes[:i] {
			if b.x < other.x+other.w && other.x < b.x+b.w && b.y < other.y+other.h && other.y < b.y+b.h {
				t.Errorf("%s overlaps %s", at, other.lines[0])
			}
		}
		checkBoxes(t, at, b.inner)
	}
}

// many is a host with n GPUs and n HCAs below one switch.
func many(n int) *Topology {
	snap := &rdma.Snapshot{}
	for i := range n {
		address := fmt.Sprintf("0000:%02x:%02x.0", i/32+16, i%32)
		snap.HCAs = append(snap.HCAs, rdma.HCA{
			IBDev: fmt.Sprintf("mlx5_%d", i), Function: rdma.PF, Identity: rdma.Identity{PCI: address},
			PCI: &rdma.PCIFunction{Address: address, Root: "pci0000:00",
				Bridges: []string{"0000:00:01.0", "0000:01:00.0", fmt.Sprintf("0000:02:%02x.0", i)}},
		})
	}
	t := &Topology{Devices: hcas(snap)}
	t.NUMANodes = grow(t.Devices)
	return t
}

// TestContrast: text outside of filled boxes reads on white and on the darkest
// usual page, and text in filled boxes on their fill. WCAG asks for 3 of what is
// large and 4.5 of other text; no one grey has 4.5 on both pages.
func TestContrast(t *testing.T) {
	colours := regexp.MustCompile(`\.(\w+)>rect\{fill:(#[0-9a-f]{6})`).FindAllStringSubmatch(StyleSheet, -1)
	must.Eq(t, 4, len(colours), must.Sprintf("filled boxes in the style sheet: %q", colours))
	for _, c := range colours {
		if got := contrast(c[2], "#ffffff"); got < 4.5 {
			t.Errorf("white text on %s %s: contrast %.2f", c[1], c[2], got)
		}
	}
	grey := regexp.MustCompile(`font-size:11px;fill:(#[0-9a-f]{6})`).FindStringSubmatch(StyleSheet)[1]
	for _, page := range []string{"#ffffff", "#0d1117"} {
		if got := contrast(grey, page); got < 4.2 {
			t.Errorf("text %s on a page of %s: contrast %.2f", grey, page, got)
		}
	}
}

// contrast is the contrast ratio of WCAG 2 (https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio).
func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(colour string) float64 {
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, _ := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		c := float64(v) / 255
		if c <= 0.04045 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return sum
}

// TestSelfContained: the picture asks for nothing from elsewhere, and each device
// has a text for the pointer.
func TestSelfContained(t *testing.T) {
	m, err := fixture.Load("dgx-h100-ib")
	host := load(t, m, err)
	var b strings.Builder
	must.NoError(t, host.WriteSVG(&b))
	svg := strings.Replace(b.String(), "http://www.w3.org/2000/svg", "", 1)
	for _, word := range []string{"http", "url(", "@import", "href", "<script", "@font-face"} {
		test.StrNotContains(t, svg, word, test.Sprint("the picture"))
	}
	for _, d := range host.Devices {
		test.StrContains(t, svg, "<title>"+d.Name+", "+d.Address, test.Sprintf("no title for %s", d.Name))
	}
}

// BenchmarkDiscover is the cost on files in memory, without that of the snapshot.
func BenchmarkDiscover(b *testing.B) {
	for _, n := range []int{8, 64, 1016} {
		b.Run(fmt.Sprintf("functions=%d", n), func(b *testing.B) {
			m, err := fixture.Large(n)
			must.NoError(b, err)
			sys := m.FS(b)
			snap, err := rdma.Discover(sys)
			must.NoError(b, err)
			for b.Loop() {
				Discover(sys, snap)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/function")
		})
	}
}
