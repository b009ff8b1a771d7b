package lists

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Fleet sums up a cluster.
type Fleet struct {
	// Nodes are those with a pod of the driver, or with ResourceSlices. Drivers counts them by the state of their driver.
	Nodes   *int           `json:"nodes,omitempty"`
	Drivers map[string]int `json:"drivers"`
	// HCAs are the published ones, in whatever forms. Drained are those that somebody took out of service. Failed are
	// those from which another taint of this driver keeps claims away. A count is nil if what is counted could not be
	// read.
	HCAs    *int `json:"hcas,omitempty"`
	Drained *int `json:"drained,omitempty"`
	Failed  *int `json:"failed,omitempty"`
	// Pods have or want RDMA devices. Impaired are those that run with a problem, Waiting those that do not run yet.
	Pods     *int `json:"pods,omitempty"`
	Impaired *int `json:"impaired,omitempty"`
	Waiting  *int `json:"waiting,omitempty"`
	// Lacks says what slices show that the API server lacks.
	Lacks []string `json:"lacks,omitempty"`
}

// FleetOf sums up the cluster and the pods of [Pods]. The time it takes grows with the number of objects, and not with
// its square.
func FleetOf(c *model.Cluster, pods []Pod) *Fleet {
	out := &Fleet{
		Nodes: c.Unread.Counter(model.Slices), Drivers: map[string]int{},
		Pods: c.Unread.Counter(model.UserPods), HCAs: c.Unread.Counter(model.Slices),
		Drained: c.Unread.Counter(model.Slices, model.Rules), Failed: c.Unread.Counter(model.Slices),
		Impaired: c.Unread.Counter(model.UserPods, model.Slices, model.Rules, model.Events),
		Waiting:  c.Unread.Counter(model.UserPods),
	}
	if c.DriversUnread() {
		out.Nodes, out.Impaired = nil, nil
	}
	v := c.View()
	for _, n := range DriverNodes(v) {
		increase(out.Nodes, true)
		out.Drivers[n.DriverWord()]++
	}
	out.addHCAs(v)
	for i := range pods {
		increase(out.Pods, true)
		increase(out.Waiting, pods[i].Status == "Pending")
		increase(out.Impaired, pods[i].Status == "Running" && len(pods[i].Problems) > 0)
	}
	return out
}

// DriverNodes returns the nodes with the driver or RDMA devices in any order, without the counts of devices.
func DriverNodes(v *model.View) (out []Node) {
	published := map[string][]*resourceapi.ResourceSlice{}
	for _, s := range v.Slices {
		if name := ptr.Deref(s.Spec.NodeName, ""); s.Spec.Driver == rdma.Domain {
			published[name] = append(published[name], s)
		}
	}
	for _, d := range v.Known { // which may name a node that its slice does not
		if d.Slice.Spec.Driver == rdma.Domain {
			published[d.Node()] = append(published[d.Node()], nil...)
		}
	}
	for name := range v.Drivers {
		published[name] = append(published[name], nil...) // also a node without slices
	}
	for name, slices := range published {
		if node := (Node{Name: name}); name != "" {
			node.driver(v)
			node.published(v, slices)
			node.empty(v)
			out = append(out, node)
		}
	}
	return out
}

// addHCAs counts HCAs: one has several devices if claims can get it alone and in shares.
func (f *Fleet) addHCAs(v *model.View) {
	for _, h := range v.HCAs(model.NodeChoice{}) {
		drained, failed := false, false
		for _, d := range h.Devices {
			if d.LacksShares() {
				f.Lacks = []string{v.Cluster.WithoutShares()}
			}
		}
		for _, t := range h.Taints() {
			drained = drained || t.KeepsAway() && t.Drain != nil
			failed = failed || t.KeepsAway() && t.Drain == nil && t.OfDriver()
		}
		increase(f.HCAs, true)
		increase(f.Drained, drained)
		increase(f.Failed, failed)
	}
}

// WriteText writes the sums in three lines, and below what the API server lacks.
func (f *Fleet) WriteText(w io.Writer) error {
	var drivers []string
	for _, word := range slices.SortedFunc(maps.Keys(f.Drivers), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Drivers[b], f.Drivers[a]), cmp.Compare(a, b))
	}) {
		drivers = append(drivers, fmt.Sprintf("%d %s", f.Drivers[word], word))
	}
	states := ""
	if len(drivers) > 0 {
		states = ": driver on " + strings.Join(drivers, ", ")
	}
	lacks := ""
	for _, what := range f.Lacks {
		lacks += "Note: " + what + "\n"
	}
	_, err := fmt.Fprintf(w, "%s%s\n%s: %s drained, %s failed\n%s: %s with a problem, %s waiting\n%s",
		numbered(f.Nodes, "node"), states, numbered(f.HCAs, "HCA"), number(f.Drained), number(f.Failed),
		numbered(f.Pods, "pod"), number(f.Impaired), number(f.Waiting), lacks)
	return err
}

// numbered is a number with its noun.
func numbered(n *int, noun string) string {
	if n == nil {
		return "? " + noun + "s"
	}
	return text.Count(*n, noun)
}
