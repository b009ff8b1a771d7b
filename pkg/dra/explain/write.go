package explain

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
)

// Formats are the ways to write a report.
var Formats = []string{"table", "json", "yaml"}

// Write writes a report in one of the formats.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case "table":
		return r.table(w)
	case "json":
		return quote.JSON(w, r)
	case "yaml":
		return quote.YAML(w, r)
	}
	return fmt.Errorf("write explanation: unknown format %q, want one of %v", format, Formats)
}

// table writes the published devices in columns, and below them each reason once.
func (r *Report) table(w io.Writer) error {
	var n notes
	errs := []error{r.hcas(w, &n)}
	if len(r.Groups) > 0 {
		errs = append(errs, r.groups(w, &n))
	}
	errs = append(errs, r.interfaceTable(w, &n))
	if len(n) > 0 {
		_, err := fmt.Fprintln(w)
		errs = append(errs, err)
	}
	for i, reason := range n {
		_, err := fmt.Fprintf(w, "%d: %s\n", i+1, quote.Terminal(reason))
		errs = append(errs, err)
	}
	if !r.LimitsEnforced {
		_, err := fmt.Fprintf(w, "\n%s\n", r.Limits)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *Report) hcas(w io.Writer, n *notes) error {
	if len(r.HCAs) == 0 {
		_, err := fmt.Fprintln(w, "This host has no RDMA devices.")
		return err
	}
	var rows [][]string
	for _, h := range r.HCAs {
		var names []string
		for _, d := range h.Devices {
			names = append(names, d.Name)
		}
		rows = append(rows, []string{
			h.IBDev, h.Name, h.Function, dash(h.Rule), h.Wanted, dash(strings.Join(names, ",")),
			dash(h.Health), dash(capacities(h.Devices)), dash(attributes(h.Attributes)), n.number(h.Reason, h.Fault),
		})
	}
	return writeTable(w,
		"IBDEV\tHCA\tFUNCTION\tRULE\tPUBLISH\tPUBLISHED\tHEALTH\tCAPACITY\tATTRIBUTES\tNOTE", rows)
}

// writeTable writes rows in columns below a header.
func writeTable(w io.Writer, header string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, header)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(quote.Cells(row...), "\t"))
	}
	return tw.Flush()
}

func (r *Report) groups(w io.Writer, n *notes) error {
	var rows [][]string
	for _, g := range r.Groups {
		published := "-"
		if len(g.Devices) > 0 {
			published = g.Devices[0].Name
		}
		rows = append(rows, []string{
			g.Name, published, dash(capacities(g.Devices)), n.number(g.Reason), dash(strings.Join(g.Members, ",")),
		})
	}
	return writeTable(w, "\nGROUP\tPUBLISHED\tCAPACITY\tNOTE\tMEMBERS", rows)
}

// capacities lists the totals: "bandwidth 400G, shares 63".
func capacities(devices []Device) string {
	var parts []string
	for _, d := range devices {
		for name, c := range d.Capacity {
			parts = append(parts, name+" "+c.Total)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func attributes(values map[string]any) string {
	var parts []string
	for name, value := range values {
		parts = append(parts, fmt.Sprintf("%s=%v", name, value))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func dash(s string) string { return cmp.Or(s, "-") }
