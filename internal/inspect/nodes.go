package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// Node is a node that runs the driver, or publishes RDMA devices.
type Node struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	// Driver is the driver's pod, nil without one.
	Driver *DriverPod `json:"driver,omitempty"`
	// Published says whether the driver has ResourceSlices for the node. Incomplete says whether
	// some are missing, so that the scheduler allocates nothing.
	Published  bool `json:"published"`
	Incomplete bool `json:"incomplete,omitempty"`
	// NoHCA says that the driver runs and has found no HCA. Why says why a driver publishes nothing, in its own words, or
	// that these were not seen.
	NoHCA   bool   `json:"noHCA,omitempty"`
	Why     string `json:"why,omitempty"`
	Devices int    `json:"devices"`
	// Free counts the devices that one more claim could get now. A shared device with free shares is
	// both free and used.
	Free int `json:"free"`
	// Used counts the devices that claims hold, exclusively or as shares.
	Used    int `json:"used"`
	Tainted int `json:"tainted"`
	// Rules are the DeviceTaintRules that taint its devices.
	Rules []string `json:"rules,omitempty"`
	// Protocols of the devices: ib, roce, iwarp, efa, opa.
	Protocols []string          `json:"protocols,omitempty"`
	Claims    int               `json:"claims"`
	Kubelet   string            `json:"kubelet,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`

	unread bool // whether it has ResourceSlices is not known
}

// DriverPod is the pod of the driver on a node.
type DriverPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	Version   string `json:"version,omitempty"`
}

// ListNodes returns the nodes with the driver or RDMA devices: all, or those with the given names.
func (c *Cluster) ListNodes(ctx context.Context, names ...string) ([]Node, error) {
	v := c.view()
	devices, err := c.ListDevices(ctx, DeviceFilter{})
	if err != nil {
		return nil, err
	}
	var out []Node
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if len(names) > 0 && !slices.Contains(names, n.Name) {
			continue
		}
		node := Node{Name: n.Name, Ready: nodeReady(n), Kubelet: n.Status.NodeInfo.KubeletVersion, Labels: n.Labels}
		node.driver(v.drivers[n.Name])
		node.published(v.slices)
		node.empty(v)
		if node.Driver == nil && !node.Published && len(names) == 0 {
			continue
		}
		node.count(devices)
		out = append(out, node)
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (n *Node) driver(pod *corev1.Pod) {
	if pod != nil {
		n.Driver = &DriverPod{pod.Namespace, pod.Name, podReady(pod), pod.Labels["app.kubernetes.io/version"]}
	}
}

func (n *Node) published(all []*resourceapi.ResourceSlice) {
	var got, want int64
	for _, s := range all {
		if s.Spec.Driver == driver && deref(s.Spec.NodeName) == n.Name {
			got, want = got+1, s.Spec.Pool.ResourceSliceCount
		}
	}
	n.Published, n.Incomplete = got > 0, got != want
}

// NothingPublished is the reason of the event of a driver that publishes nothing: such a node has no ResourceSlice.
const NothingPublished = "NoRDMADevices"

// empty says why a driver publishes nothing. The API server keeps the driver's events for an hour, and the driver
// repeats this one. A driver is ready only after it has published what there is.
func (n *Node) empty(v *view) {
	if n.unread = v.unread("resourceslices"); n.unread {
		n.Why = "ResourceSlices were not read"
	}
	if n.Published || n.Driver == nil || n.unread {
		return
	}
	var newest corev1.Event
	for _, e := range v.Events {
		if e.Reason == NothingPublished && e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == n.Name &&
			e.Source.Component == driver && e.Source.Host == n.Name && !e.LastTimestamp.Before(&newest.LastTimestamp) {
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

func (n *Node) count(devices []Device) {
	claims := map[string]bool{}
	for i := range devices {
		d := &devices[i]
		if d.Node != n.Name {
			continue
		}
		n.Devices++
		if len(d.Claims) > 0 {
			n.Used++
		}
		if d.tainted {
			n.Tainted++
		} else if d.State == DeviceFree || d.State == DeviceShared {
			n.Free++
		}
		for _, rule := range d.rules {
			n.Rules = appendNew(n.Rules, rule)
		}
		for _, c := range d.Claims {
			claims[c] = true
		}
		if p := d.text("protocol"); p != "" {
			n.Protocols = appendNew(n.Protocols, p)
		}
	}
	slices.Sort(n.Protocols)
	slices.Sort(n.Rules)
	n.Claims = len(claims)
}

// DriverPods returns a pod of the driver on each node, or on those with the given names, by the name of the node. A
// named node without one is an error, unless "" is among the names, which then are those of a selector. None at all
// is one, too.
func (c *Cluster) DriverPods(names ...string) ([]corev1.Pod, error) {
	found := map[string]corev1.Pod{}
	for node, pod := range driverPods(c.Pods) {
		if len(names) == 0 || slices.Contains(names, node) {
			found[node] = *pod
		}
	}
	for _, name := range names {
		if _, ok := found[name]; !ok && !slices.Contains(names, "") {
			return nil, fmt.Errorf("find the driver of node %s: it has no pod there; kubectl rdma nodes %s says more", name,
				text.Shell(name))
		}
	}
	if len(found) == 0 {
		return nil, errors.New("find the drivers: no chosen node has a pod of the driver; kubectl rdma nodes says more")
	}
	return slices.SortedFunc(maps.Values(found), func(a, b corev1.Pod) int {
		return cmp.Compare(a.Spec.NodeName, b.Spec.NodeName)
	}), nil
}

// DriverVersions returns the versions of the drivers by node, as their pods have them: the label of the chart, or the
// image.
func (c *Cluster) DriverVersions() map[string]string {
	out := map[string]string{}
	for node, pod := range driverPods(c.Pods) {
		out[node] = pod.Labels["app.kubernetes.io/version"]
		if len(pod.Spec.Containers) > 0 {
			out[node] = cmp.Or(out[node], pod.Spec.Containers[0].Image)
		}
	}
	return out
}
