package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// Fleet sums up a cluster.
type Fleet struct {
	// Nodes are those with a pod of the driver, or with ResourceSlices. Drivers counts them by the state of their driver.
	Nodes   int            `json:"nodes"`
	Drivers map[string]int `json:"drivers"`
	// HCAs are the published ones, in whatever forms. Drained are those that somebody took out of service. Failed are
	// those from which another taint of this driver keeps claims away. A count is nil if what is counted could not be
	// read.
	HCAs    *int `json:"hcas,omitempty"`
	Drained *int `json:"drained,omitempty"`
	Failed  *int `json:"failed,omitempty"`
	// Pods have or want RDMA devices. Impaired are those that run with a problem, Waiting those that do not run yet.
	Pods     int  `json:"pods"`
	Impaired *int `json:"impaired,omitempty"`
	Waiting  *int `json:"waiting,omitempty"`
}

// Fleet sums up the cluster and the pods of [Cluster.ListPods]. The time it takes grows with the number of objects, and
// not with its square.
func (c *Cluster) Fleet(pods []Pod) *Fleet {
	out := &Fleet{
		Drivers: map[string]int{}, Pods: len(pods), HCAs: c.Unread.counter(Slices), Drained: c.Unread.counter(Slices, Rules),
		Failed: c.Unread.counter(Slices), Impaired: c.Unread.counter(UserPods, Slices, Rules),
		Waiting: c.Unread.counter(UserPods),
	}
	v := c.view()
	out.addNodes(v)
	out.addHCAs(v)
	for i := range pods {
		increase(out.Waiting, pods[i].Status == "Pending")
		increase(out.Impaired, pods[i].Status == "Running" && len(pods[i].Problems) > 0)
	}
	return out
}

func (f *Fleet) addNodes(v *view) {
	published := map[string][]*resourceapi.ResourceSlice{}
	for _, s := range v.slices {
		if name := deref(s.Spec.NodeName); s.Spec.Driver == driver {
			published[name] = append(published[name], s)
		}
	}
	for name := range v.drivers {
		published[name] = append(published[name], nil...) // also a node without slices
	}
	for name, slices := range published {
		if node := (Node{Name: name}); name != "" {
			node.driver(v)
			node.published(v, slices)
			node.empty(v)
			f.Nodes++
			f.Drivers[node.driverWord()]++
		}
	}
}

// addHCAs counts HCAs: one has several devices if claims can get it alone and in shares.
func (f *Fleet) addHCAs(v *view) {
	const isHCA, isDrained, isFailed = 1, 2, 4
	hcas := map[string]int{}
	for _, d := range v.devices {
		if d.slice.Spec.Driver != driver || d.text("group") != "" {
			continue
		}
		name := d.id.Pool.String() + "/" + HCAOf(d.Name)
		hcas[name] |= isHCA
		for _, t := range d.taints() {
			switch {
			case !t.keepsAway():
			case t.drain != nil:
				hcas[name] |= isDrained
			case strings.HasPrefix(t.Key, driver+"/"):
				hcas[name] |= isFailed
			}
		}
	}
	for _, state := range hcas {
		increase(f.HCAs, true)
		increase(f.Drained, state&isDrained != 0)
		increase(f.Failed, state&isFailed != 0)
	}
}

// WriteText writes the sums in three lines.
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
	hcas := "? HCAs"
	if f.HCAs != nil {
		hcas = text.Count(*f.HCAs, "HCA")
	}
	_, err := fmt.Fprintf(w, "%s%s\n%s: %s drained, %s failed\n%s: %s with a problem, %s waiting\n",
		text.Count(f.Nodes, "node"), states, hcas, number(f.Drained), number(f.Failed),
		text.Count(f.Pods, "pod"), number(f.Impaired), number(f.Waiting))
	return err
}
