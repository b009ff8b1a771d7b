// Package fabrictest looks at the page of kubectl rdma report in a real browser.
package fabrictest

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
)

var screens = flag.String("screens", "", "`DIRECTORY` that gets a picture of the page in each view")

// view is a window and the user's choice of colours.
type view struct {
	width, height int
	scheme        string
}

// views are a desk and a telephone.
var views = []view{{1440, 1600, "light"}, {1440, 1600, "dark"}, {390, 2400, "light"}, {390, 2400, "dark"}}

// look is what the browser tells of the page.
type look struct {
	HCAs []string // names, in order
	// Hidden are HCAs that nobody sees: without a place or a sign, or beside the window.
	Hidden []string
	// Pale are HCAs whose sign has too little contrast to its colour. Drained ones have stripes, and are left out.
	Pale []string
	// Beside are elements that reach out of the window and are in no box that scrolls.
	Beside []string
	// Width is that of the page. Elements and Loaded say how large it is and when it was there, in milliseconds.
	Width, Elements int
	Loaded          float64
}

// observe is the look of the page with all folds open.
const observe = `(() => {
  const loaded = performance.getEntriesByType('navigation')[0].loadEventEnd;
  for (const d of document.querySelectorAll('details')) {
    d.open = true;
    d.style.contentVisibility = 'visible'; // or each question lays the page out again
  }
  const cells = [...document.querySelectorAll('[data-hca]')], name = e => e.dataset.hca;
  const width = document.documentElement.clientWidth, place = e => e.getBoundingClientRect();
  const scrolls = e => e && (getComputedStyle(e).overflowX != 'visible' || scrolls(e.parentElement));
  const light = colour => {
    const [r, g, b] = colour.match(/[\d.]+/g).map(v => v / 255).
      map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.05 + 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = e => {
    const colour = getComputedStyle(e).backgroundColor;
    return colour.endsWith(', 0)') ? behind(e.parentElement) : colour;
  };
  const contrast = e => {
    const [low, high] = [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => a - b);
    return high / low;
  };
  return {
    HCAs: cells.map(name).sort(),
    Hidden: cells.filter(e => !e.textContent || place(e).width < 8 || place(e).height < 8 ||
      place(e).left < 0 || place(e).right > width).map(name),
    Pale: cells.filter(e => !e.matches('.drained') && contrast(e) < 3).map(e => e.className + ' ' + contrast(e)),
    Beside: [...document.body.querySelectorAll('*')].filter(e =>
      place(e).right > width + 1 && !scrolls(e.parentElement)).map(e => e.outerHTML.slice(0, 80)),
    Width: document.documentElement.scrollWidth, Elements: document.querySelectorAll('*').length, Loaded: loaded,
  };
})()`

// Check opens a page in a browser without script, on a desk and on a telephone, light and dark. Each of these HCAs
// must be there once, and be seen. Nothing may reach out of the window, and nothing may be asked of another file.
func Check(t testing.TB, page string, hcas []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fabric.html")
	must.NoError(t, os.WriteFile(file, []byte(page), 0o644))
	address := (&url.URL{Scheme: "file", Path: file}).String()
	slices.Sort(hcas)
	b := start(t)
	for _, v := range views {
		b.open(address, v)
		where := fmt.Sprintf("%d-%s", v.width, v.scheme)
		if *screens != "" {
			must.NoError(t, os.MkdirAll(*screens, 0o755))
			b.picture(filepath.Join(*screens, where+".png"))
		}
		var got look
		b.evaluate(observe, &got)
		said := test.Sprint(where)
		test.Eq(t, hcas, got.HCAs, said)
		test.Eq(t, []string{}, got.Hidden, said)
		test.Eq(t, []string{}, got.Pale, said)
		test.Eq(t, []string{}, got.Beside, said)
		test.LessEq(t, v.width, got.Width, said)
		test.Eq(t, []string{address}, b.requests, said)
		t.Logf("%s: %d elements, loaded after %.0f ms", where, got.Elements, got.Loaded)
	}
}
