package nodestatus

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
)

// Write writes the status in one of the formats.
func (s *Status) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		return text.JSON(w, s)
	case "yaml":
		return text.YAML(w, s)
	case "table":
		return s.tables(w)
	}
	return fmt.Errorf("write status: unknown format %q, want one of %v", format, Formats)
}

// tables writes the status for a terminal. A table without rows is left out. Below the tables stands each reason once.
func (s *Status) tables(out io.Writer) error {
	w := bufio.NewWriter(out) // it keeps the first error for Flush
	var n notes
	if s.Node != "" {
		fmt.Fprintf(w, "%s: %s\n\n", text.Terminal(s.Node), s.Summary())
	}
	switch {
	case len(s.HCAs) == 0 && len(s.Problems) > 0:
		fmt.Fprintln(w, "No RDMA device of this host was read.")
	case len(s.HCAs) == 0:
		fmt.Fprintln(w, "This host has no RDMA devices.")
	}
	_ = text.Table(w, "IBDEV\tHCA\tFUNCTION\tPORTS\tHEALTH\tRULE\tPUBLISH\tPUBLISHED\tCLAIMS\tNOTE", s.hcas(&n))
	_ = text.Table(w, "\nIBDEV\tCAPACITY\tATTRIBUTES", s.contents())
	_ = text.Table(w, "\nGROUP\tPUBLISHED\tCAPACITY\tNOTE\tMEMBERS", rows(s.Groups, func(g Group) []string {
		return []string{g.Name, names(g.Devices), capacities(g.Devices), n.number(g.Reason), list(g.Members)}
	}))
	_ = text.Table(w, "\nIBDEV\tINTERFACE\tMACVLAN\tIPVLAN\tMOVE\tNOTE", s.interfaces(&n))
	_ = text.Table(w, "\nIBDEV\tTRAFFICCLASS\tSERVICELEVEL", s.marks())
	_ = text.Table(w, "\nIBDEV\tPORT\tLEAF\tLEAF PORT\tFABRIC\tSOURCE\tSEEN\tNOTE", s.leaves(&n))
	_ = text.Table(w, "\nCLAIM\tREQUEST\tDEVICE\tHCAS\tPODS", rows(s.Claims, Claim.row))
	_ = text.Table(w, "\nIPAM\tSUBNET\tBLOCK\tIN USE\tHCAS\tNOTE", rows(s.IPAM, func(b blocks.Usage) []string {
		used := ""
		if b.Size > 0 {
			used = fmt.Sprintf("%d of %d", len(b.Addresses), b.Size)
		}
		return []string{b.IPAM, b.Subnet, b.Block, used, list(b.HCAs), n.number(b.Problem)}
	}))
	_ = text.Table(w, "\nADDRESS\tINTERFACE\tPOD\tCLAIM\tDEVICE", s.addresses())
	_ = text.Table(w, "\nAGO\tIBDEV\tCHANGE", s.changes())
	_ = text.Table(w, "\nAGO\tCOUNT\tTYPE\tEVENT\tOBJECT\tMESSAGE", rows(s.Events, func(e Event) []string {
		kind := "Normal"
		if e.Warning {
			kind = "Warning"
		}
		return []string{ago(s.At, e.Last), strconv.Itoa(e.Count), kind, e.Reason, e.Object, e.Message}
	}))
	if len(n) > 0 {
		fmt.Fprintln(w)
	}
	for i, reason := range n {
		fmt.Fprintf(w, "%d: %s\n", i+1, text.Terminal(reason))
	}
	for _, problem := range s.Problems {
		fmt.Fprintf(w, "\nproblem: %s\n", text.Terminal(problem))
	}
	for _, sentence := range slices.Concat(s.Lacks, s.Notes) {
		fmt.Fprintf(w, "\n%s\n", text.Terminal(sentence))
	}
	return w.Flush()
}

func (s *Status) hcas(n *notes) [][]string {
	return rows(s.HCAs, func(h HCA) []string {
		ports := rows(h.Ports, Port.words)
		taints := ""
		if len(h.Taints) > 0 {
			taints = "taints: " + strings.Join(h.Taints, ", ")
		}
		return []string{h.IBDev, h.Name, h.Function, list(ports), h.Health, h.Rule, h.Wanted, names(h.Devices),
			list(h.Claims), n.number(h.Reason, h.Fault, taints)}
	})
}

// contents lists the capacity of each HCA, and the attributes that the policy sets.
func (s *Status) contents() (out [][]string) {
	for _, h := range s.HCAs {
		capacity := capacities(h.Devices)
		attributes := list(rows(slices.Sorted(maps.Keys(h.Attributes)), func(name string) string {
			return fmt.Sprintf("%s=%v", name, h.Attributes[name])
		}))
		if capacity != "" || attributes != "" {
			out = append(out, []string{h.IBDev, capacity, attributes})
		}
	}
	return out
}

// interfaces lists the network interface of each HCA, and the modes that claims can request.
func (s *Status) interfaces(n *notes) (out [][]string) {
	for _, h := range s.HCAs {
		i := h.Interface
		if i == nil {
			continue
		}
		name := i.Netdev
		if i.Parent != "" {
			name += " (" + i.Parent + ")"
		}
		row, reasons := []string{h.IBDev, name}, []string{i.LowMTU}
		for _, mode := range modes {
			can := "no"
			if slices.Contains(i.Modes, mode) {
				can = "yes"
			}
			row, reasons = append(row, can), append(reasons, i.Refused[mode])
		}
		out = append(out, append(row, n.number(reasons...)))
	}
	return out
}

// marks lists the marks of packets, for HCAs whose rule sets one.
func (s *Status) marks() (out [][]string) {
	number := func(n *int) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(*n)
	}
	for _, h := range s.HCAs {
		if h.TrafficClass != nil || h.ServiceLevel != nil {
			out = append(out, []string{h.IBDev, number(h.TrafficClass), number(h.ServiceLevel)})
		}
	}
	return out
}

// leaves lists the leaf switch of each port, or why it is unknown.
func (s *Status) leaves(n *notes) (out [][]string) {
	for _, h := range s.HCAs {
		for _, port := range h.Ports {
			l := port.Leaf
			if l == nil {
				continue
			}
			seen := ""
			if l.Seen != nil {
				seen = ago(s.At, *l.Seen)
			}
			out = append(out, []string{
				h.IBDev, strconv.Itoa(port.Number), l.Switch, l.Port, l.Fabric, l.Source, seen, n.number(l.Reason)})
		}
	}
	return out
}

func (c Claim) row() []string {
	var requests, devices, hcas []string
	for _, d := range c.Devices {
		requests, devices, hcas = append(requests, d.Request), append(devices, d.Device), append(hcas, d.HCAs...)
	}
	return []string{c.Namespace + "/" + c.Name, list(requests), list(devices), list(hcas), list(c.Pods)}
}

func (s *Status) addresses() (out [][]string) {
	for _, b := range s.IPAM {
		for _, a := range b.Addresses {
			out = append(out, []string{a.Address, a.Interface, a.Pod, a.Claim, a.Device})
		}
	}
	return out
}

// changes returns the last changes of all HCAs, the newest first.
func (s *Status) changes() [][]string {
	type change struct {
		Change
		ibdev string
	}
	var all []change
	for _, h := range s.HCAs {
		for _, c := range h.Recent {
			all = append(all, change{c, h.IBDev})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return b.At.Compare(a.At) })
	return rows(all, func(c change) []string { return []string{ago(s.At, c.At), c.ibdev, c.Text} })
}

// notes numbers reasons, so that the output has each of them once.
type notes []string

func (n *notes) number(reasons ...string) string {
	var numbers []string
	for _, reason := range reasons {
		if reason == "" {
			continue
		}
		i := slices.Index(*n, reason)
		if i < 0 {
			i = len(*n)
			*n = append(*n, reason)
		}
		if number := strconv.Itoa(i + 1); !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	return list(numbers)
}

func names(devices []Device) string {
	return list(rows(devices, func(d Device) string { return d.Name }))
}

// capacities lists the totals: "bandwidth 400G,shares 63".
func capacities(devices []Device) string {
	var parts []string
	for _, d := range devices {
		for name, c := range d.Capacity {
			parts = append(parts, name+" "+c.Total)
		}
	}
	slices.Sort(parts)
	return list(parts)
}

// rows calls row for each of a list.
func rows[T, R any](all []T, row func(T) R) (out []R) {
	for _, one := range all {
		out = append(out, row(one))
	}
	return out
}

func list(values []string) string { return strings.Join(values, ",") }

// ago formats the time between then and at as kubectl does.
func ago(at, then time.Time) string { return duration.HumanDuration(at.Sub(then)) }

func rate(mbps int) string {
	if mbps == 0 {
		return ""
	}
	return fmt.Sprintf("%g Gb/s", float64(mbps)/1000)
}

// Summary returns the status in one line.
func (s *Status) Summary() string {
	parts := []string{text.Count(len(s.HCAs), "HCA"), text.Count(len(s.Claims), "prepared claim")}
	unhealthy := 0
	for _, h := range s.HCAs {
		if h.Health != "" && h.Health != "Healthy" {
			unhealthy++
		}
	}
	if unhealthy > 0 {
		parts = append(parts, fmt.Sprintf("%d not healthy", unhealthy))
	}
	if n := len(s.Problems); n > 0 {
		parts = append(parts, text.Count(n, "problem"))
	}
	return strings.Join(parts, ", ")
}

// words are the state and the rate of a port.
func (p Port) words() string {
	words := strings.TrimSpace(p.State + " " + rate(p.RateMbps))
	if p.PCIeMbps > 0 {
		words += ", PCIe " + rate(p.PCIeMbps)
	}
	return words
}
