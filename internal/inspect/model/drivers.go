package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// driverLabel is the chart's label of the driver's pods: app.kubernetes.io/name.
const (
	driverLabel = "app.kubernetes.io/name"
	driverApp   = "dra-driver-rdma"
)

// DriverSelector selects the pods of the driver, and those of everybody who copies the label.
const DriverSelector = driverLabel + "=" + driverApp

// driverAccount is the annotation of the chart's DeviceClasses that names the driver's service account, as Kubernetes
// names its user. A label proves nothing, since whoever may create a pod sets it. A DeviceClass belongs to the cluster:
// only administrators write it, and all may read it.
const (
	driverAccount = rdma.Domain + "/account"
	accountPrefix = "system:serviceaccount:"
)

// driverAccounts returns the service accounts of the driver, as NAMESPACE:NAME. The name is "" where any account of the
// namespace counts: where the user names the namespace, and for charts without the annotation.
func (c *Cluster) driverAccounts() []string {
	if c.DriverNamespace != "" {
		return []string{c.DriverNamespace + ":"}
	}
	var out []string
	for i := range c.Classes {
		if account, ok := strings.CutPrefix(c.Classes[i].Annotations[driverAccount], accountPrefix); ok {
			out = AppendNew(out, account)
		}
	}
	if out == nil {
		return []string{driverApp + ":"} // where the chart's documents install it
	}
	return out
}

// driverPods returns the driver's pods by their nodes, and the other pods with its label, which are nobody's driver.
// During an update a node may have two drivers, and a ready one counts.
func (c *Cluster) driverPods() (drivers map[string]*corev1.Pod, others []*corev1.Pod) {
	drivers = map[string]*corev1.Pod{}
	accounts := c.driverAccounts()
	for i := range c.Pods {
		p := &c.Pods[i]
		switch {
		case p.Labels[driverLabel] != driverApp || p.DeletionTimestamp != nil:
		case !isDriver(p, accounts):
			others = append(others, p)
		case drivers[p.Spec.NodeName] == nil || PodReady(p):
			drivers[p.Spec.NodeName] = p
		}
	}
	return drivers, others
}

// isDriver reports whether a pod is of a DaemonSet and has one of the service accounts. The chart's jobs may have both,
// without the DaemonSet.
func isDriver(pod *corev1.Pod, accounts []string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && slices.ContainsFunc(accounts, func(account string) bool {
		namespace, name, _ := strings.Cut(account, ":")
		return pod.Namespace == namespace && (name == "" || pod.Spec.ServiceAccountName == name)
	})
}

// Lookalikes names the pods that have the driver's label and are not the driver's, "" if there are none.
func (c *Cluster) Lookalikes() string {
	_, others := c.driverPods()
	var names []string
	for _, p := range others {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	if names == nil || c.DriversUnread() {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("not the driver's, although with its label: %s. The driver is %s, says annotation %s of its "+
		"DeviceClasses, or the flag --driver-namespace", List(names, "pod", 4), c.DriverPlace(), driverAccount)
}

// DriversUnread reports whether a node may have a pod of the driver that is not known.
func (c *Cluster) DriversUnread() bool {
	return c.Unread.Has(Pods) || c.DriverNamespace == "" && c.Unread.Has(Classes)
}

// DriverPlace says where pods of the driver are looked for.
func (c *Cluster) DriverPlace() string {
	namespace, _, _ := strings.Cut(c.driverAccounts()[0], ":")
	if c.DriverNamespace != "" {
		return "in namespace " + namespace
	}
	return "in namespace " + namespace + c.Unread.Unseen(string(Classes))
}

// DriverPods returns the driver's pods of nodes, by the name of the node. It fails if a named node has no driver pod,
// or if no node has one.
func (c *Cluster) DriverPods(nodes NodeChoice) ([]corev1.Pod, error) {
	if i := slices.IndexFunc(c.Unread, func(u Unread) bool { return u.Kind == Pods }); i >= 0 {
		return nil, fmt.Errorf("find the pods of the driver: %s", c.Unread[i].Why)
	}
	found := map[string]corev1.Pod{}
	drivers, _ := c.driverPods()
	for node, pod := range drivers {
		if nodes.Has(node) {
			found[node] = *pod
		}
	}
	for _, name := range nodes.Names {
		if _, ok := found[name]; !ok && !nodes.FromSelector {
			return nil, fmt.Errorf("find the driver of node %s: it has no pod there; kubectl rdma nodes %s says more", name,
				text.Shell(name))
		}
	}
	if len(found) == 0 {
		return nil, errors.New("find the drivers: no chosen node has a pod of the driver " + c.DriverPlace() +
			"; kubectl rdma nodes says more")
	}
	return slices.SortedFunc(maps.Values(found), func(a, b corev1.Pod) int {
		return cmp.Compare(a.Spec.NodeName, b.Spec.NodeName)
	}), nil
}

// DriverVersions returns the versions of the drivers by node, as their pods have them: the label of the chart, or the
// image.
func (c *Cluster) DriverVersions() map[string]string {
	out := map[string]string{}
	drivers, _ := c.driverPods()
	for node, pod := range drivers {
		out[node] = pod.Labels["app.kubernetes.io/version"]
		if len(pod.Spec.Containers) > 0 {
			out[node] = cmp.Or(out[node], pod.Spec.Containers[0].Image)
		}
	}
	return out
}
