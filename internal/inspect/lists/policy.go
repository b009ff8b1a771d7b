package lists

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// PolicyTest is what a node would publish with another policy.
type PolicyTest struct {
	Node string `json:"node"`
	// Problem is why the driver refuses the file, why parts of it do not apply on the node, or why the driver has not
	// answered. Only parts that do not apply leave devices to compare.
	Problem string `json:"problem,omitempty"`
	// Devices is how many devices the node would publish, and Published how many it publishes now.
	Devices   int            `json:"devices"`
	Published int            `json:"published"`
	Added     []DeviceChange `json:"added,omitempty"`
	Removed   []DeviceChange `json:"removed,omitempty"`
	Changed   []DeviceChange `json:"changed,omitempty"`
	// Notes are what the API server lacks or may lack for the file, and what of the file matches nothing on the node.
	Notes []string `json:"notes,omitempty"`
}

// DeviceChange is what would change of a device.
type DeviceChange struct {
	Name  string `json:"name"`
	IBDev string `json:"ibdev,omitempty"`
	// Changes are sentences about a device that stays.
	Changes []string `json:"changes,omitempty"`
	// Claims hold a device that new claims would not get any more.
	Claims []string `json:"claims,omitempty"`
}

// PolicyAnswer is what the driver of a node says of a policy.
type PolicyAnswer struct {
	Node    string
	Problem string // as in PolicyTest
	Slices  []resourceapi.ResourceSlice
	Notes   []string // as in PolicyTest
}

// Unasked returns an answer for each node that publishes devices and has none of the driver's pods to ask.
// The nodes are as in [model.Cluster.DriverPods].
func Unasked(c *model.Cluster, asked []corev1.Pod, nodes model.NodeChoice) (out []PolicyAnswer) {
	seen := map[string]bool{}
	for _, p := range asked {
		seen[p.Spec.NodeName] = true
	}
	for _, s := range c.Slices {
		node := ptr.Deref(s.Spec.NodeName, "")
		if s.Spec.Driver != rdma.Domain || len(s.Spec.Devices) == 0 || seen[node] || !nodes.Has(node) {
			continue
		}
		seen[node] = true
		out = append(out, PolicyAnswer{Node: node, Problem: "it publishes devices, and has no pod of the driver to ask"})
	}
	return out
}

// PolicyTests compares what nodes publish with what their drivers would publish. Rules of the cluster are to be unread:
// their taints are not the drivers'.
func PolicyTests(c *model.Cluster, answers []PolicyAnswer) (out []PolicyTest) {
	v := c.View()
	published := map[string]map[string]*resourceapi.Device{}
	for _, s := range v.Slices {
		if node := ptr.Deref(s.Spec.NodeName, ""); s.Spec.Driver == rdma.Domain {
			if published[node] == nil {
				published[node] = map[string]*resourceapi.Device{}
			}
			addDevices(published[node], s)
		}
	}
	for _, a := range answers {
		after := map[string]*resourceapi.Device{}
		for i := range a.Slices {
			addDevices(after, &a.Slices[i])
		}
		test := PolicyTest{Node: a.Node, Problem: a.Problem, Devices: len(after), Published: len(published[a.Node]),
			Notes: a.Notes}
		if a.Problem == "" || len(after) > 0 {
			test.compare(v.Holdings, published[a.Node], after)
		}
		out = append(out, test)
	}
	return out
}

func (p *PolicyTest) compare(holders model.Holdings, before, after map[string]*resourceapi.Device) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		old, now := before[name], after[name]
		one := DeviceChange{Name: name, IBDev: ibdevOf(old)}
		if now == nil || drains(now) && !drains(old) {
			one.Claims = holders.Names(structured.MakeDeviceID(rdma.Domain, p.Node, name))
		}
		if now == nil {
			p.Removed = append(p.Removed, one)
		} else if one.Changes = changes(old, now); len(one.Changes) > 0 {
			p.Changed = append(p.Changed, one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] == nil {
			p.Added = append(p.Added, DeviceChange{Name: name, IBDev: ibdevOf(after[name])})
		}
	}
}

func addDevices(to map[string]*resourceapi.Device, s *resourceapi.ResourceSlice) {
	for i := range s.Spec.Devices {
		to[s.Spec.Devices[i].Name] = &s.Spec.Devices[i]
	}
}

func ibdevOf(d *resourceapi.Device) string {
	return (&model.Device{Device: d}).Text(rdma.AttributeIBDev)
}

func drains(d *resourceapi.Device) bool {
	return slices.ContainsFunc(d.Taints, func(t resourceapi.DeviceTaint) bool { return t.Key == model.DrainingTaint })
}

// changes says how two forms of a device differ.
func changes(old, now *resourceapi.Device) []string {
	var out []string
	before, after := facts(old), facts(now)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was, is := cmp.Or(before[name], "none"), cmp.Or(after[name], "none"); was != is {
			out = append(out, fmt.Sprintf("%s: %s -> %s", name, was, is))
		}
	}
	if !slices.Equal(counted(old), counted(now)) {
		out = append(out, "which devices of its card exclude it")
	}
	return out
}

// facts has attributes, capacities, taints and the way of allocation as texts.
func facts(d *resourceapi.Device) map[string]string {
	out := map[string]string{"for many claims": fmt.Sprint(ptr.Deref(d.AllowMultipleAllocations, false))}
	for name, a := range d.Attributes {
		out[strings.TrimPrefix(string(name), rdma.Domain+"/")] = fmt.Sprint(model.Value(a))
	}
	for name, c := range d.Capacity {
		out["capacity "+string(name)] = c.Value.String()
		if p := c.RequestPolicy; p != nil && p.Default != nil {
			out["capacity "+string(name)] += " (default " + p.Default.String() + ")"
		}
	}
	for _, t := range d.Taints {
		out["taint "+t.Key] = strings.TrimSuffix(string(t.Effect)+" "+t.Value, " ")
	}
	return out
}

// counted lists the counters that a device consumes, with the amounts.
func counted(d *resourceapi.Device) (out []string) {
	for _, c := range d.ConsumesCounters {
		for name, n := range c.Counters {
			out = append(out, c.CounterSet+"/"+name+"="+n.Value.String())
		}
	}
	slices.Sort(out)
	return out
}

// WritePolicyTests writes the results of nodes. Nodes with the same result share one paragraph. With all set, it names
// every node and device.
func WritePolicyTests(w io.Writer, tests []PolicyTest, all bool) error {
	out, most := bufio.NewWriter(text.Writer(w)), 8
	if all {
		most = 1 << 20
	}
	nodes, order := map[string][]string{}, []string{}
	for i := range tests {
		result := tests[i].text(most)
		if nodes[result] == nil {
			order = append(order, result)
		}
		nodes[result] = append(nodes[result], tests[i].Node)
	}
	for _, result := range order {
		text.Fprintf(out, "%s: ", model.List(nodes[result], "Node", most))
		for line := range strings.Lines(result) {
			text.Fprintf(out, "%s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return out.Flush()
}

// text is the result of a node without its name.
func (p *PolicyTest) text(most int) string {
	var out strings.Builder
	if p.Problem != "" {
		for line := range strings.Lines(p.Problem) {
			fmt.Fprintf(&out, "%s\n", text.Terminal(strings.TrimSuffix(line, "\n")))
		}
		if p.Devices == 0 {
			return out.String()
		}
		out.WriteString("  With it, the node publishes ")
	}
	what := []string{
		fmt.Sprintf("%d new", len(p.Added)), fmt.Sprintf("%d gone", len(p.Removed)),
		fmt.Sprintf("%d changed", len(p.Changed)),
	}
	if len(p.Added)+len(p.Removed)+len(p.Changed) == 0 {
		what = []string{"nothing changes"}
	}
	fmt.Fprintf(&out, "%s, now %d: %s\n", text.Count(p.Devices, "device"), p.Published, strings.Join(what, ", "))
	for _, part := range []struct {
		mark    string
		devices []DeviceChange
		claims  string
	}{
		{"+", p.Added, ""}, {"-", p.Removed, "they have it, and a pod that has not started with it cannot start"},
		{"~", p.Changed, "they keep it until they end"},
	} {
		for i, d := range part.devices {
			if i == most {
				fmt.Fprintf(&out, "  %s and %d more: see -o wide\n", part.mark, len(part.devices)-i)
				break
			}
			d.write(&out, part.mark, part.claims, most)
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&out, "  Note: %s\n", text.Terminal(n))
	}
	return out.String()
}

func (d *DeviceChange) write(out *strings.Builder, mark, claims string, most int) {
	fmt.Fprintf(out, "  %s %s", mark, d.Name)
	if d.IBDev != "" {
		fmt.Fprintf(out, " (%s)", text.Terminal(d.IBDev))
	}
	out.WriteString("\n")
	for _, c := range d.Changes {
		fmt.Fprintf(out, "      %s\n", text.Terminal(c))
	}
	if len(d.Claims) > 0 {
		fmt.Fprintf(out, "      claims %s: %s\n", text.First(d.Claims, most, ", "), claims)
	}
}
