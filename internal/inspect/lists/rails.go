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

type railID struct{ rail, protocol, subnet string }

// Rails returns the rails of the cluster, or of some nodes, by number. VFs and SFs are left out: they share the port of
// their PF.
func Rails(c *model.Cluster, nodes model.NodeChoice) []Rail {
	v := c.View()
	rails := map[railID]*Rail{}
	for _, h := range v.HCAs(nodes) {
		if !h.Whole() {
			continue
		}
		id := railID{h.Rail, h.Protocol, h.Subnet}
		if rails[id] == nil {
			rails[id] = &Rail{
				Rail: h.Rail, Protocol: h.Protocol, Subnet: h.Subnet, Rates: map[string]int{}, nodes: map[string]bool{},
			}
		}
		rails[id].add(h)
	}
	out := []Rail{}
	for _, r := range rails {
		r.Nodes, r.Missing = len(r.nodes), missing(v, nodes, rails, r.Rail)
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Rail) int {
		return cmp.Or(cmp.Compare(a.number(), b.number()), cmp.Compare(a.Protocol, b.Protocol),
			cmp.Compare(a.Subnet, b.Subnet))
	})
	return out
}

// missing returns the nodes that publish RDMA devices, and no HCA on a rail of this number, whatever its protocol and
// subnet are.
func missing(v *model.View, nodes model.NodeChoice, rails map[railID]*Rail, rail string) (out []string) {
	if rail == "" {
		return nil
	}
	on := map[string]bool{}
	for id, r := range rails {
		if id.rail == rail {
			maps.Copy(on, r.nodes)
		}
	}
	for _, d := range v.Devices {
		if node := d.Node(); d.Slice.Spec.Driver == rdma.Domain && nodes.Has(node) && !on[node] {
			on[node] = true
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return out
}

func (r *Rail) add(h *model.Published) {
	r.nodes[h.Node] = true
	r.HCAs++
	r.Rates[h.Devices[0].Text(rdma.AttributeRateGbps)]++
	if slices.ContainsFunc(h.Taints(), model.Taint.KeepsAway) {
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
