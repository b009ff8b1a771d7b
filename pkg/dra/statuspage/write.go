package statuspage

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
)

// Write writes the page in one of the formats.
func (p *Page) Write(w io.Writer, format string) error {
	switch format {
	case "html":
		return p.WriteHTML(w)
	case "json":
		return quote.JSON(w, p)
	case "table":
		return p.table(w)
	}
	return fmt.Errorf("write status: unknown format %q, want one of %v", format, Formats)
}

// table writes the page for a terminal.
func (p *Page) table(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s: %s\n", quote.Terminal(p.Node), p.Summary())
	for _, problem := range p.Problems {
		fmt.Fprintf(b, "problem: %s\n", quote.Terminal(problem))
	}
	columns(b, "IBDEV\tHCA\tFUNCTION\tPORTS\tHEALTH\tPUBLISHED\tCLAIMS", len(p.HCAs), func(i int) []string {
		h := p.HCAs[i]
		var ports []string
		for _, port := range h.Ports {
			ports = append(ports, strings.TrimSpace(port.State+" "+rate(port.RateMbps)))
		}
		return []string{h.IBDev, h.Name, h.Function, list(ports), h.Health, list(h.Devices), list(h.Claims)}
	})
	columns(b, "CLAIM\tREQUEST\tDEVICE\tHCAS\tPODS", len(p.Claims), func(i int) []string {
		c := p.Claims[i]
		var requests, devices, hcas []string
		for _, d := range c.Devices {
			requests, devices, hcas = append(requests, d.Request), append(devices, d.Device), append(hcas, d.HCAs...)
		}
		return []string{c.Namespace + "/" + c.Name, list(requests), list(devices), list(hcas), list(c.Pods)}
	})
	columns(b, "AGO\tCOUNT\tTYPE\tEVENT\tOBJECT\tMESSAGE", len(p.Events), func(i int) []string {
		e := p.Events[i]
		kind := "Normal"
		if e.Warning {
			kind = "Warning"
		}
		return []string{ago(p.At, e.Last), fmt.Sprint(e.Count), kind, e.Reason, e.Object, e.Message}
	})
	return b.Flush()
}

// columns writes a table of n rows after an empty line, nothing for no rows.
func columns(w io.Writer, header string, n int, row func(int) []string) {
	if n == 0 {
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(tw, "\n%s\n", header)
	for i := range n {
		cells := row(i)
		for j, cell := range cells {
			if cells[j] = quote.Terminal(cell); cell == "" {
				cells[j] = "-"
			}
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	_ = tw.Flush() // the buffer keeps its error
}

func list(values []string) string { return strings.Join(values, ",") }
