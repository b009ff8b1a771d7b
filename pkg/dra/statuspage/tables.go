package statuspage

import (
	"fmt"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/explain"
)

// section is a heading with a table of rows, or the text none for no rows.
func section(heading string, columns []string, rows g.Group, none string) g.Node {
	body := html.P(html.Class("none"), g.Text(none))
	if len(rows) > 0 {
		head := g.Map(columns, func(column string) g.Node { return html.Th(html.Scope("col"), g.Text(column)) })
		table := lines(html.Table, html.THead(html.Tr(head)), lines(html.TBody, rows))
		body = lines(html.Div, html.Class("scroll"), table)
	}
	return lines(html.Section, html.H2(g.Text(heading)), body)
}

func (p *Page) hcas() g.Node {
	return section("HCAs", []string{"HCA", "Device", "Ports", "Health", "Published as", "Claims"},
		g.Map(p.HCAs, HCA.row), "This host has no RDMA devices.")
}

func (h HCA) row() g.Node {
	device := h.Model
	if h.Firmware != "" {
		device += ", firmware " + h.Firmware
	}
	if h.NUMANode != nil {
		device += ", NUMA node " + strconv.Itoa(*h.NUMANode)
	}
	return lines(html.Tr,
		html.Td(html.Class("name"), html.Code(g.Text(h.IBDev)), html.Small(g.Text(h.Name))),
		html.Td(g.Text(h.Function+" "+h.Protocol), html.Small(g.Text(device))),
		html.Td(g.Map(h.Ports, Port.div), g.Map(h.Ports, Port.leaf)),
		html.Td(h.health(), small(h.Fault),
			g.Map(h.Taints, func(taint string) g.Node { return html.Small(g.Text("taint " + taint)) }), h.history()),
		html.Td(each(h.Devices, "not published", func(name string) g.Node { return html.Code(g.Text(name)) }),
			small(h.Reason)),
		html.Td(each(h.Claims, "none", g.Text)),
	)
}

func (p Port) div() g.Node {
	var netdev g.Node
	if p.Netdev != "" {
		netdev = html.Code(g.Text(p.Netdev))
	}
	return html.Div(g.Textf("%d: %s %s ", p.Number, p.State, rate(p.RateMbps)), netdev)
}

// leaf is empty if nothing is known of the leaf of the port.
func (p Port) leaf() g.Node {
	l := p.Leaf
	switch {
	case l == nil:
		return nil
	case l.Switch == "":
		return html.Small(g.Textf("%d: leaf switch unknown: %s", p.Number, l.Reason))
	}
	line := fmt.Sprintf("%d: leaf switch %s", p.Number, l.Switch)
	if l.Port != "" {
		line += " port " + l.Port
	}
	if l.Fabric != "" {
		line += ", fabric " + l.Fabric
	}
	if l.Seen != nil {
		line += fmt.Sprintf(" (%s, seen %s)", l.Source, text.Time(*l.Seen))
	}
	if l.Reason != "" {
		line += ": " + l.Reason
	}
	return html.Small(g.Text(line))
}

func (h HCA) health() g.Node {
	if h.Health == "" {
		return html.Span(html.Class("none"), g.Text("not judged"))
	}
	return html.Span(html.Class(strings.ToLower(h.Health)), g.Text(h.Health))
}

// history is empty for an HCA to which nothing happened.
func (h HCA) history() g.Node {
	if len(h.Recent) == 0 {
		return small(h.History)
	}
	return html.Details(html.Summary(html.Small(g.Text(h.History))), g.Map(h.Recent, func(c Change) g.Node {
		return html.Small(g.Text(text.Time(c.At) + ": " + c.Text))
	}))
}

// groups is empty if the site defines no groups.
func (p *Page) groups() g.Node {
	if len(p.Groups) == 0 {
		return nil
	}
	return section("Groups", []string{"Group", "Published", "HCAs"}, g.Map(p.Groups, groupRow), "")
}

func groupRow(group explain.Group) g.Node {
	published := "no"
	if group.Published {
		published = "yes"
	}
	return html.Tr(html.Td(g.Text(group.Name)), html.Td(g.Text(published), small(group.Reason)),
		html.Td(g.Text(strings.Join(group.Members, ", "))))
}

func (p *Page) claims() g.Node {
	return section("Prepared claims", []string{"Claim", "Devices", "Pods"},
		g.Map(p.Claims, Claim.row), "No claim is prepared on this node.")
}

func (c Claim) row() g.Node {
	return lines(html.Tr,
		html.Td(html.Class("name"), g.Text(c.Namespace+"/"+c.Name), html.Small(g.Text(c.UID))),
		html.Td(g.Map(c.Devices, Device.div)),
		html.Td(each(c.Pods, "none known", g.Text)),
	)
}

func (d Device) div() g.Node {
	name := d.Device
	if d.ShareID != "" {
		name += ", share " + d.ShareID
	}
	return html.Div(g.Text(d.Request+": "), html.Code(g.Text(strings.Join(d.HCAs, ", "))),
		g.If(d.AdminAccess, g.Text(" (admin access)")), html.Small(g.Text(name)))
}

// blocks is empty if the site divides no subnet among nodes.
func (p *Page) blocks() g.Node {
	if len(p.Blocks) == 0 {
		return nil
	}
	return section("Addresses", []string{"IPAM", "Block of this node", "In use", "Addresses"},
		g.Map(p.Blocks, blockRow), "")
}

func blockRow(b blocks.Usage) g.Node {
	block := g.Node(html.Code(g.Text(b.Block)))
	if b.Block == "" {
		block = html.Span(html.Class("none"), g.Text("none"))
	}
	return lines(html.Tr,
		html.Td(html.Class("name"), g.Text(b.IPAM), html.Small(g.Text(b.Subnet))),
		html.Td(block, small(b.Problem)),
		html.Td(g.Text(use(b))),
		html.Td(g.Map(b.Addresses, addressDiv)),
	)
}

func use(b blocks.Usage) string { return fmt.Sprintf("%d of %d", len(b.Addresses), b.Size) }

func addressDiv(a blocks.Address) g.Node {
	return html.Div(html.Code(g.Text(a.Address)), g.Text(" "+a.Pod),
		html.Small(g.Text(a.Interface+", claim "+a.Claim+", "+a.Device)))
}

func (p *Page) events() g.Node {
	rows := g.Map(p.Events, func(e Event) g.Node { return p.event(e) })
	return section("Last events", []string{"Ago", "Event", "Object", "Message"}, rows,
		"Nothing has happened since the driver started.")
}

func (p *Page) event(e Event) g.Node {
	var repeated g.Node
	if e.Count > 1 {
		repeated = html.Small(g.Textf("%d times in %s", e.Count, ago(e.Last, e.First)))
	}
	return lines(html.Tr,
		html.Td(clock(e.Last, ago(p.At, e.Last), html.Title(stamp(e.Last))), repeated),
		html.Td(g.If(e.Warning, html.Class("warning")), g.Text(e.Reason)),
		html.Td(g.Text(e.Object)),
		html.Td(g.Text(e.Message)),
	)
}

// each shows each text on a line, or the text none for no texts.
func each(all []string, none string, of func(string) g.Node) g.Node {
	if len(all) == 0 {
		return html.Span(html.Class("none"), g.Text(none))
	}
	return g.Map(all, func(one string) g.Node { return html.Div(of(one)) })
}

// small is a note; an empty one shows nothing.
func small(text string) g.Node {
	if text == "" {
		return nil
	}
	return html.Small(g.Text(text))
}
