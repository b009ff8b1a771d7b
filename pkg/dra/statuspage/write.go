package statuspage

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/explain"
)

// Write writes the page in one of the formats.
func (p *Page) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		return text.JSON(w, p)
	case "table":
		return p.table(w)
	}
	return fmt.Errorf("write status: unknown format %q, want one of %v", format, Formats)
}

// table writes the page for a terminal.
func (p *Page) table(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s: %s\n", text.Terminal(p.Node), p.Summary())
	for _, problem := range p.Problems {
		fmt.Fprintf(b, "problem: %s\n", text.Terminal(problem))
	}
	_ = text.Table(b, "\nIBDEV\tHCA\tFUNCTION\tPORTS\tHEALTH\tPUBLISHED\tCLAIMS\tTAINTS\tNOTE", rows(p.HCAs, func(h HCA) []string {
		ports := rows(h.Ports, func(p Port) string { return strings.TrimSpace(p.State + " " + rate(p.RateMbps)) })
		note := strings.Trim(h.Fault+"; "+h.Reason, "; ")
		return []string{h.IBDev, h.Name, h.Function, list(ports), h.Health, list(h.Devices), list(h.Claims), list(h.Taints), note}
	}))
	_ = text.Table(b, "\nIBDEV\tPORT\tLEAF\tLEAF PORT\tFABRIC\tSOURCE\tSEEN\tNOTE", p.leaves())
	_ = text.Table(b, "\nGROUP\tPUBLISHED\tHCAS\tNOTE", rows(p.Groups, func(g explain.Group) []string {
		return []string{g.Name, fmt.Sprint(g.Published), list(g.Members), g.Reason}
	}))
	_ = text.Table(b, "\nAGO\tIBDEV\tCHANGE", p.changes())
	_ = text.Table(b, "\nCLAIM\tREQUEST\tDEVICE\tHCAS\tPODS", rows(p.Claims, func(c Claim) []string {
		var requests, devices, hcas []string
		for _, d := range c.Devices {
			requests, devices, hcas = append(requests, d.Request), append(devices, d.Device), append(hcas, d.HCAs...)
		}
		return []string{c.Namespace + "/" + c.Name, list(requests), list(devices), list(hcas), list(c.Pods)}
	}))
	_ = text.Table(b, "\nIPAM\tSUBNET\tBLOCK\tIN USE\tNOTE", rows(p.Blocks, func(b blocks.Usage) []string {
		return []string{b.IPAM, b.Subnet, b.Block, fmt.Sprintf("%d of %d", len(b.Addresses), b.Size), b.Problem}
	}))
	_ = text.Table(b, "\nADDRESS\tINTERFACE\tPOD\tCLAIM\tDEVICE", p.addresses())
	_ = text.Table(b, "\nAGO\tCOUNT\tTYPE\tEVENT\tOBJECT\tMESSAGE", rows(p.Events, func(e Event) []string {
		kind := "Normal"
		if e.Warning {
			kind = "Warning"
		}
		return []string{ago(p.At, e.Last), fmt.Sprint(e.Count), kind, e.Reason, e.Object, e.Message}
	}))
	return b.Flush() // the buffer keeps its error
}

// leaves returns what is known of the leaf switches of ports.
func (p *Page) leaves() (out [][]string) {
	for _, h := range p.HCAs {
		for _, port := range h.Ports {
			if l := port.Leaf; l != nil {
				row := []string{h.IBDev, fmt.Sprint(port.Number), l.Switch, l.Port, l.Fabric, l.Source, "", l.Reason}
				if l.Seen != nil {
					row[6] = ago(p.At, *l.Seen)
				}
				out = append(out, row)
			}
		}
	}
	return out
}

// changes returns the last changes of all HCAs, the newest first.
func (p *Page) changes() (out [][]string) {
	type change struct {
		Change
		ibdev string
	}
	var all []change
	for _, h := range p.HCAs {
		for _, c := range h.Recent {
			all = append(all, change{c, h.IBDev})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return b.At.Compare(a.At) })
	return rows(all, func(c change) []string { return []string{ago(p.At, c.At), c.ibdev, c.Text} })
}

func (p *Page) addresses() (out [][]string) {
	for _, b := range p.Blocks {
		for _, a := range b.Addresses {
			out = append(out, []string{a.Address, a.Interface, a.Pod, a.Claim, a.Device})
		}
	}
	return out
}

// rows calls row for each of a list.
func rows[T, R any](all []T, row func(T) R) (out []R) {
	for _, one := range all {
		out = append(out, row(one))
	}
	return out
}

func list(values []string) string { return strings.Join(values, ",") }
