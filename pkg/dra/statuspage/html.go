package statuspage

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"time"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// style is in the page and, as a hash, in the policy that allows the browser to use it.
//
//go:embed page.css
var style string

// WriteHTML writes the page for a browser. It uses functions and no template. Templates find
// methods by name at run time, so the linker would keep every method of every type, 20 MB of
// the program.
func (p *Page) WriteHTML(w io.Writer) error {
	var picture bytes.Buffer
	if p.Topology != nil {
		if err := p.Topology.WriteSVG(&picture); err != nil {
			return fmt.Errorf("draw the host: %w", err)
		}
	}
	if err := (g.Group{p.document(picture.String()), g.Raw("\n")}).Render(text.Writer(w)); err != nil {
		return fmt.Errorf("write the status page: %w", err)
	}
	return nil
}

// document is the whole page. The picture is already escaped (tests of package topology).
func (p *Page) document(picture string) g.Node {
	return html.Doctype(lines(html.HTML, html.Lang("en"),
		lines(html.Head,
			html.Meta(html.Charset("utf-8")),
			html.Meta(html.Name("viewport"), html.Content("width=device-width, initial-scale=1")),
			html.Meta(html.Name("color-scheme"), html.Content("light dark")),
			html.TitleEl(g.Text(p.Node), g.Text(": RDMA devices")),
			html.StyleEl(g.Raw(style)),
		),
		lines(html.Body,
			p.header(),
			lines(html.Main,
				p.problems(),
				lines(html.Section, html.H2(g.Text("Host")), html.Div(html.Class("scroll"), g.Raw("\n"+picture))),
				p.hcas(), p.groups(), p.claims(), p.blocks(), p.events(),
			),
		),
	))
}

func (p *Page) header() g.Node {
	registered := "not registered with the kubelet"
	if p.Registered {
		registered = "registered with the kubelet"
	}
	if p.NRI != "" {
		registered += ", " + p.NRI + " to NRI"
	}
	return lines(html.Header,
		html.H1(g.Text("RDMA devices of "), g.Text(p.Node)),
		html.P(g.Text(p.Summary())),
		html.P(html.Class("soft"),
			g.Textf("%s, running for %s; %s. This page is of ", p.Version, ago(p.At, p.Started), registered),
			clock(p.At, stamp(p.At)),
			g.Text(": reload it for a newer one. The same "), html.A(html.Href(Path+"?o=json"), g.Text("as JSON")), g.Text("."),
		),
	)
}

func (p *Page) problems() g.Node {
	if len(p.Problems) == 0 {
		return nil
	}
	items := g.Map(p.Problems, func(problem string) g.Node {
		return html.Li(html.Span(html.Class("warning"), g.Text("Problem:")), g.Text(" "+problem))
	})
	return lines(html.Section, html.Aria("label", "Problems"), lines(html.Ul, html.Class("problems"), items))
}

// stamp formats a time for programs. clock shows a text and has the time for programs.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func clock(t time.Time, text string, attributes ...g.Node) g.Node {
	return html.Time(html.DateTime(stamp(t)), g.Group(attributes), g.Text(text))
}

// lines makes an element whose children begin on new lines, to make the source readable.
func lines(element func(...g.Node) g.Node, children ...g.Node) g.Node {
	out := []g.Node{g.Raw("\n")}
	for _, child := range children {
		group, ok := child.(g.Group)
		if !ok {
			group = g.Group{child}
		}
		for _, one := range group {
			out = append(out, one)
			if t, typed := one.(interface{ Type() g.NodeType }); one != nil && !(typed && t.Type() == g.AttributeType) {
				out = append(out, g.Raw("\n"))
			}
		}
	}
	return element(out...)
}
