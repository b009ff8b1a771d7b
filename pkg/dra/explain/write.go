package explain

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// Formats are the ways to write a report.
var Formats = []string{"table", "json", "yaml"}

// Write writes a report in one of the formats.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case "table":
		return r.table(w)
	case "json":
		return text.JSON(w, r)
	case "yaml":
		return text.YAML(w, r)
	}
	return fmt.Errorf("write explanation: unknown format %q, want one of %v", format, Formats)
}

// table writes the published devices in columns, and below them each reason once.
func (r *Report) table(out io.Writer) error {
	w := bufio.NewWriter(out) // it keeps the first error for Flush
	var n notes
	switch {
	case len(r.HCAs) == 0 && len(r.Problems) > 0:
		fmt.Fprintln(w, "No RDMA device of this host was read.")
	case len(r.HCAs) == 0:
		fmt.Fprintln(w, "This host has no RDMA devices.")
	}
	_ = text.Table(w, "IBDEV\tHCA\tFUNCTION\tRULE\tPUBLISH\tPUBLISHED\tHEALTH\tCAPACITY\tATTRIBUTES\tNOTE", r.hcas(&n))
	_ = text.Table(w, "\nGROUP\tPUBLISHED\tCAPACITY\tNOTE\tMEMBERS", r.groups(&n))
	_ = text.Table(w, "\nIBDEV\tHCA\tINTERFACE\tMACVLAN\tIPVLAN\tMOVE\tNOTE", r.interfaces(&n))
	_ = text.Table(w, "\nIBDEV\tHCA\tTRAFFICCLASS\tSERVICELEVEL", r.marks())
	_ = text.Table(w, "\nIPAM\tSUBNET\tBLOCK\tHCAS\tNOTE", r.ipam(&n))
	if len(n) > 0 {
		fmt.Fprintln(w)
	}
	for i, reason := range n {
		fmt.Fprintf(w, "%d: %s\n", i+1, text.Terminal(reason))
	}
	if !r.LimitsEnforced {
		fmt.Fprintf(w, "\n%s\n", r.Limits)
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(w, "\nnot read: %s\n", text.Terminal(problem))
	}
	for _, lack := range []string{r.GIDIndexes, r.IPv6} {
		if lack != "" {
			fmt.Fprintf(w, "\n%s\n", text.Terminal(lack))
		}
	}
	return w.Flush()
}

func (r *Report) hcas(n *notes) (rows [][]string) {
	for _, h := range r.HCAs {
		rows = append(rows, []string{
			h.IBDev, h.Name, h.Function, h.Rule, h.Wanted, names(h.Devices),
			h.Health, capacities(h.Devices), attributes(h.Attributes), n.number(h.Reason, h.Fault),
		})
	}
	return rows
}

// marks has the marks of each HCA whose rule sets one.
func (r *Report) marks() (rows [][]string) {
	text := func(n *int) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(*n)
	}
	for _, h := range r.HCAs {
		if h.TrafficClass != nil || h.ServiceLevel != nil {
			rows = append(rows, []string{h.IBDev, h.Name, text(h.TrafficClass), text(h.ServiceLevel)})
		}
	}
	return rows
}

func (r *Report) groups(n *notes) (rows [][]string) {
	for _, g := range r.Groups {
		rows = append(rows, []string{
			g.Name, names(g.Devices), capacities(g.Devices), n.number(g.Reason), strings.Join(g.Members, ","),
		})
	}
	return rows
}

func names(devices []Device) string {
	var out []string
	for _, d := range devices {
		out = append(out, d.Name)
	}
	return strings.Join(out, ",")
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
