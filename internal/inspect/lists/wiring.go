package lists

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Wiring is the comparison of a wiring plan with the leaf switches that drivers have published.
type Wiring struct {
	// Differences are the HCAs that are not connected as planned.
	Differences []Miswired `json:"differences"`
	// Unseen are the planned HCAs that publish no leaf switch, as NODE/HCA.
	Unseen []string `json:"unseen,omitempty"`
	// Agreed counts the HCAs that are connected as planned.
	Agreed int `json:"agreed"`
}

// Miswired is an HCA that is not connected as planned.
type Miswired struct {
	Node  string `json:"node"`
	HCA   string `json:"hca"`
	IBDev string `json:"ibdev,omitempty"`
	Rail  string `json:"rail,omitempty"`
	// Planned and Seen are leaf switches, "" if they are not known here.
	Planned string `json:"planned,omitempty"`
	Seen    string `json:"seen,omitempty"`
	// Tainted says that the driver itself has found it: then a port may differ, too.
	Tainted bool `json:"tainted"`
}

// miswiredTaint is the taint of an HCA whose driver has found that it is not connected as planned.
const miswiredTaint = rdma.Domain + "/miswired"

// CompareWiring compares a plan with the leaf switches of the HCAs of nodes. Without a plan it lists what the drivers
// have found.
func CompareWiring(c *model.Cluster, plan *v1alpha1.LinkTable, nodes model.NodeChoice) Wiring {
	out := Wiring{Differences: []Miswired{}}
	for _, h := range c.View().HCAs(nodes) {
		if !h.Whole() {
			continue
		}
		one := Miswired{
			Node: h.Node, HCA: h.Name, IBDev: h.IBDev, Rail: h.Rail, Planned: plannedLeaf(plan, h), Seen: h.Leaf,
			Tainted: slices.ContainsFunc(h.Devices[0].AllTaints(), func(t model.Taint) bool { return t.Key == miswiredTaint }),
		}
		switch {
		case one.Tainted, one.Planned != "" && one.Seen != "" && !v1alpha1.SameLeaf(one.Planned, one.Seen):
			out.Differences = append(out.Differences, one)
		case one.Planned != "" && one.Seen == "":
			out.Unseen = append(out.Unseen, h.String())
		case one.Planned != "":
			out.Agreed++
		}
	}
	slices.Sort(out.Unseen)
	return out
}

// plannedLeaf returns the leaf switch of an HCA's first port in a plan, "" if there is none, or more than one. A slice
// has the GUID of the node, which is that of the port for HCAs with one port.
func plannedLeaf(plan *v1alpha1.LinkTable, h *model.Published) string {
	if plan == nil {
		return ""
	}
	d := h.Devices[0]
	port := v1alpha1.LinkPort{
		Node: h.Node, Names: []string{h.Name, h.IBDev, d.Text(rdma.AttributeNetdev)}, Number: 1, First: true,
	}
	if guid, err := rdma.ParseGUID(d.Text(rdma.AttributeNodeGUID)); err == nil {
		port.GUIDs = []rdma.GUID{guid}
	}
	var leaves []string
	for i := range plan.Links {
		l := &plan.Links[i]
		known := func(leaf string) bool { return strings.EqualFold(leaf, l.Leaf) }
		if l.IsOf(&port) && !slices.ContainsFunc(leaves, known) {
			leaves = append(leaves, l.Leaf)
		}
	}
	if len(leaves) != 1 {
		return ""
	}
	return leaves[0]
}

// WiringTable shows the differences.
func WiringTable(list []Miswired) *metav1.Table {
	t := Columns("Node", "HCA", "Rail", "Planned", "Seen")
	for _, m := range list {
		planned := m.Planned
		if planned == "" {
			planned = "see the events of the node"
		}
		Row(t, m.Node, cmp.Or(m.IBDev, m.HCA), m.Rail, planned, m.Seen)
	}
	return t
}
