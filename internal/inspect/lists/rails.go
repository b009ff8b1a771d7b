package lists

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Rail is what ResourceSlices say of a rail of the cluster's network: the HCAs of one number, protocol and subnet.
type Rail struct {
	// Rail is the number, "" for HCAs without one. Subnet is the prefix of an InfiniBand subnet.
	Rail     string `json:"rail,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Subnet   string `json:"subnet,omitempty"`
	// Nodes have an HCA on the rail, and Missing publish RDMA devices and have none on a rail of this number.
	Nodes   int      `json:"nodes"`
	Missing []string `json:"missing,omitempty"`
	HCAs    int      `json:"hcas"`
	// Tainted counts the HCAs from which a taint keeps new claims away.
	Tainted int `json:"tainted"`
	// Rates counts the HCAs by their rate in Gb/s, "" for those whose port is not up.
	Rates map[string]int `json:"rates"`

	nodes map[string]bool
}

// Rails returns the rails of the cluster, or of nodes with these names, by number. VFs and SFs are left out: they share
// the port of their PF.
func Rails(c *model.Cluster, nodes ...string) []Rail {
	count := railCount{rails: map[railID]*Rail{}, nodes: map[string]bool{}, seen: map[string]bool{}}
	for _, d := range c.View().Devices {
		if d.Slice.Spec.Driver == rdma.Domain && (len(nodes) == 0 || slices.Contains(nodes, d.Node())) {
			count.add(d)
		}
	}
	out := []Rail{}
	for _, r := range count.rails {
		r.Nodes = len(r.nodes)
		r.Missing = count.missing(r.Rail)
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Rail) int {
		return cmp.Or(cmp.Compare(a.number(), b.number()), cmp.Compare(a.Protocol, b.Protocol),
			cmp.Compare(a.Subnet, b.Subnet))
	})
	return out
}

type railID struct{ rail, protocol, subnet string }

// railCount has the rails, and the nodes with RDMA devices.
type railCount struct {
	rails map[railID]*Rail
	nodes map[string]bool
	seen  map[string]bool // HCAs: one may be published in two forms
}

func (c *railCount) add(d *model.Device) {
	node := d.ID.Pool.String()
	c.nodes[node] = true
	hca := node + "/" + model.HCAOf(d.Name)
	if c.seen[hca] || d.Text(rdma.AttributeGroup) != "" || d.Text(rdma.AttributeFunction) == "vf" || d.Text(rdma.AttributeFunction) == "sf" {
		return
	}
	c.seen[hca] = true
	id := railID{d.Text(rdma.AttributeRail), d.Text(rdma.AttributeProtocol), d.Text(rdma.AttributeSubnetPrefix)}
	if c.rails[id] == nil {
		c.rails[id] = &Rail{
			Rail: id.rail, Protocol: id.protocol, Subnet: id.subnet, Rates: map[string]int{}, nodes: map[string]bool{},
		}
	}
	c.rails[id].add(node, d)
}

// missing returns the nodes without an HCA on a rail of this number, whatever its protocol and subnet are.
func (c *railCount) missing(rail string) (out []string) {
	if rail == "" {
		return nil
	}
	for _, node := range slices.Sorted(maps.Keys(c.nodes)) {
		on := false
		for id, r := range c.rails {
			on = on || id.rail == rail && r.nodes[node]
		}
		if !on {
			out = append(out, node)
		}
	}
	return out
}

func (r *Rail) add(node string, d *model.Device) {
	r.nodes[node] = true
	r.HCAs++
	r.Rates[d.Text(rdma.AttributeRateGbps)]++
	if slices.ContainsFunc(d.AllTaints(), model.Taint.KeepsAway) {
		r.Tainted++
	}
}

// number sorts rails; those without a number come last.
func (r *Rail) number() int {
	n, err := strconv.Atoi(r.Rail)
	if err != nil {
		return math.MaxInt32
	}
	return n
}

// RailTable shows rails. Nodes that miss one are named.
func RailTable(rails []Rail) *metav1.Table {
	t := Columns("Rail", "Protocol", "Subnet", "Nodes", "HCAs", "Tainted", "Rate", "Nodes-Without")
	for i := range rails {
		r := &rails[i]
		Row(t, r.Rail, r.Protocol, r.Subnet, r.Nodes, r.HCAs, r.Tainted, r.rates(), model.Few(r.Missing, 4))
	}
	return t
}

// rates returns the rates, the most frequent first: one that differs is a cable or a port to look at.
func (r *Rail) rates() string {
	rates := slices.SortedFunc(maps.Keys(r.Rates), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Rates[b], r.Rates[a]), cmp.Compare(a, b))
	})
	var out []string
	for _, rate := range rates {
		name := rate + "Gb/s"
		if rate == "" {
			name = "not up"
		}
		if len(rates) > 1 {
			name = fmt.Sprintf("%d x %s", r.Rates[rate], name)
		}
		out = append(out, name)
	}
	return model.Few(out, 4)
}
