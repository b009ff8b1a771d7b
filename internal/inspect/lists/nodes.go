package lists

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Node is a node that runs the driver, or publishes RDMA devices.
type Node struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	// Driver is the driver's pod, nil without one.
	Driver *DriverPod `json:"driver,omitempty"`
	// Published says whether the driver has ResourceSlices for the node. Incomplete says whether
	// some are missing, so that the scheduler allocates nothing. This and the counts are nil if what they are made of
	// could not be read.
	Published  *bool `json:"published,omitempty"`
	Incomplete bool  `json:"incomplete,omitempty"`
	// NoHCA says that the driver runs and has found no HCA. Why says why a driver publishes nothing, in its own words, or
	// that these were not seen.
	NoHCA   bool   `json:"noHCA,omitempty"`
	Why     string `json:"why,omitempty"`
	Devices *int   `json:"devices,omitempty"`
	// Free counts the devices that one more claim could get now. A shared device with free shares is
	// both free and used.
	Free *int `json:"free,omitempty"`
	// Used counts the devices that claims hold, exclusively or as shares.
	Used    *int `json:"used,omitempty"`
	Tainted *int `json:"tainted,omitempty"`
	// Rules are the DeviceTaintRules that taint its devices.
	Rules []string `json:"rules,omitempty"`
	// Protocols of the devices: ib, roce, iwarp, efa, opa.
	Protocols []string          `json:"protocols,omitempty"`
	Claims    *int              `json:"claims,omitempty"`
	Kubelet   string            `json:"kubelet,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`

	driverUnread bool // the driver's pods could not be read
}

// DriverPod is the pod of the driver on a node.
type DriverPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	Version   string `json:"version,omitempty"`
}

// Nodes returns the nodes with the driver or RDMA devices: all, or those with the given names.
func Nodes(ctx context.Context, c *model.Cluster, names ...string) ([]Node, error) {
	v := c.View()
	devices, err := Devices(ctx, c, DeviceFilter{})
	if err != nil {
		return nil, err
	}
	var out []Node
	for i := range v.Cluster.Nodes {
		n := &v.Cluster.Nodes[i]
		if len(names) > 0 && !slices.Contains(names, n.Name) {
			continue
		}
		node := Node{Name: n.Name, Ready: model.NodeReady(n), Kubelet: n.Status.NodeInfo.KubeletVersion, Labels: n.Labels}
		node.driver(v)
		node.published(v, v.Slices)
		node.empty(v)
		unknown := node.driverUnread && node.Published == nil
		if node.Driver == nil && (node.Published == nil || !*node.Published) && !unknown && len(names) == 0 {
			continue
		}
		node.count(c, devices)
		out = append(out, node)
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (n *Node) driver(v *model.View) {
	n.driverUnread = v.Cluster.DriversUnread()
	if pod := v.Drivers[n.Name]; pod != nil {
		n.Driver = &DriverPod{pod.Namespace, pod.Name, model.PodReady(pod), pod.Labels["app.kubernetes.io/version"]}
	}
}

func (n *Node) published(v *model.View, all []*resourceapi.ResourceSlice) {
	if v.Cluster.Unread.Has(model.Slices) {
		return
	}
	var got, want int64
	for _, s := range all {
		if s.Spec.Driver == rdma.Domain && ptr.Deref(s.Spec.NodeName, "") == n.Name {
			got, want = got+1, s.Spec.Pool.ResourceSliceCount
		}
	}
	n.Published, n.Incomplete = new(got > 0), got != want
}

// empty says why a driver publishes nothing. The API server keeps the driver's events for an hour, and the driver
// repeats this one. A driver is ready only after it has published what there is.
func (n *Node) empty(v *model.View) {
	if n.Published == nil {
		n.Why = "ResourceSlices were not read"
	}
	if n.Published == nil || *n.Published || n.Driver == nil {
		return
	}
	var newest corev1.Event
	for _, e := range v.Cluster.Events {
		if e.Reason == model.NothingPublished && e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == n.Name &&
			model.Reporter(&e) == rdma.Domain && e.Source.Host == n.Name && !e.LastTimestamp.Before(&newest.LastTimestamp) {
			newest = e
		}
	}
	switch {
	case newest.Message != "":
		n.NoHCA = n.Driver.Ready && newest.Type == corev1.EventTypeNormal
		n.Why = text.Foreign(newest.Message)
	case n.Driver.Ready:
		n.Why = "not seen: " + text.Shells("kubectl", "-n", n.Driver.Namespace, "exec", n.Driver.Name) +
			" -- dra-driver status"
	}
}

func (n *Node) count(c *model.Cluster, devices []Device) {
	claims := map[string]bool{}
	n.Devices, n.Used = c.Unread.Counter(model.Slices), c.Unread.Counter(model.Slices, model.Claims)
	n.Claims = c.Unread.Counter(model.Slices, model.Claims)
	n.Free = c.Unread.Counter(model.Slices, model.Claims, model.Rules)
	n.Tainted = c.Unread.Counter(model.Slices, model.Rules)
	for i := range devices {
		d := &devices[i]
		if d.Node != n.Name {
			continue
		}
		increase(n.Devices, true)
		increase(n.Used, len(d.Claims) > 0)
		increase(n.Tainted, d.tainted)
		increase(n.Free, !d.tainted && (d.State == model.DeviceFree || d.State == model.DeviceShared))
		for _, rule := range d.rules {
			n.Rules = model.AppendNew(n.Rules, rule)
		}
		for _, c := range d.Claims {
			increase(n.Claims, !claims[c])
			claims[c] = true
		}
		if p := d.text(rdma.AttributeProtocol); p != "" {
			n.Protocols = model.AppendNew(n.Protocols, p)
		}
	}
	slices.Sort(n.Protocols)
	slices.Sort(n.Rules)
}

func increase(counter *int, by bool) {
	if counter != nil && by {
		*counter++
	}
}

// number writes a counter, "?" if it is not known.
func number(counter *int) string {
	if counter == nil {
		return "?"
	}
	return strconv.Itoa(*counter)
}

// NodeTable shows nodes.
func NodeTable(nodes []Node) *metav1.Table {
	t := Columns("Name", "Ready", "Driver", "Devices", "Free", "Used", "Tainted", "Protocols",
		"wide", "Claims", "Driver-Pod", "Version", "Kubelet", "Why-Nothing")
	for _, n := range nodes {
		pod, version := "", ""
		if n.Driver != nil {
			pod, version = n.Driver.Namespace+"/"+n.Driver.Name, n.Driver.Version
		}
		Row(t, n.Name, yes(n.Ready), n.DriverWord(), number(n.Devices), number(n.Free), number(n.Used), n.taints(),
			strings.Join(n.Protocols, ","), number(n.Claims), pod, version, n.Kubelet, n.Why)
	}
	return t
}

func yes(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// taints returns the number of tainted devices, with the rules that taint some.
func (n *Node) taints() string {
	text := number(n.Tainted)
	if len(n.Rules) > 0 {
		text += " (rule " + model.Few(n.Rules, 2) + ")"
	}
	return text
}

// DriverWord returns the state of the driver on a node.
func (n *Node) DriverWord() string {
	switch {
	case n.Driver == nil && n.driverUnread:
		return "Unknown"
	case n.Driver == nil:
		return "Missing"
	case !n.Driver.Ready:
		return "NotReady"
	case n.Published == nil:
		return "Unknown"
	case n.NoHCA:
		return "NoHCA"
	case !*n.Published:
		return "NothingPublished"
	case n.Incomplete:
		return "Publishing"
	}
	return "Ready"
}
