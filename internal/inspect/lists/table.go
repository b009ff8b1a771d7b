// Package lists shows the nodes, devices, claims and pods of a cluster, as values for programs and as tables.
package lists

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Columns makes a table of columns. Those after "wide" are for wide output only.
func Columns(names ...string) *metav1.Table {
	t := &metav1.Table{}
	priority := int32(0)
	for _, name := range names {
		if name == "wide" {
			priority = 1
			continue
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions,
			metav1.TableColumnDefinition{Name: name, Type: "string", Priority: priority})
	}
	return t
}

// maxCell is how many bytes of a cell a table shows: all problems of a pod, each with a message of somebody else.
const maxCell = 8 << 10

// Row adds a row to a table. An empty text becomes "-", and what a terminal would act on is escaped.
func Row(t *metav1.Table, cells ...any) {
	for i, c := range cells {
		s, ok := c.(string)
		if ok && s == "" {
			cells[i] = "-"
		} else if ok {
			cells[i] = text.Terminal(text.Bound(s, maxCell))
		}
	}
	// The printer needs an object in each row, but does not use it here.
	object := runtime.RawExtension{Object: &metav1.PartialObjectMetadata{}}
	t.Rows = append(t.Rows, metav1.TableRow{Cells: cells, Object: object})
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
		Row(t, n.Name, yes(n.Ready), n.driverWord(), number(n.Devices), number(n.Free), number(n.Used), n.taints(),
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

// driverWord returns the state of the driver on a node.
func (n *Node) driverWord() string {
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

// DeviceTable shows devices.
func DeviceTable(devices []Device) *metav1.Table {
	t := Columns("Node", "Device", "IBDev", "Protocol", "Function", "Rate", "NUMA", "State", "Taints", "Claims",
		"wide", "PCIe-Root", "Switch", "Rail", "Netdev", "Shares", "Model", "Firmware", "Node-GUID")
	for i := range devices {
		d := &devices[i]
		Row(t, d.Node, d.Name, d.text(rdma.AttributeIBDev), d.text(rdma.AttributeProtocol),
			d.text(rdma.AttributeFunction), d.rate(), d.text(deviceattribute.StandardDeviceAttributeNUMANode),
			string(d.State), strings.Join(d.Taints, ","), model.Few(d.Claims, 3),
			d.text(deviceattribute.StandardDeviceAttributePCIeRoot), d.text(rdma.AttributePCIeSwitch),
			d.text(rdma.AttributeRail), d.text(rdma.AttributeNetdev), d.shares(), d.text(rdma.AttributeModel),
			d.text(rdma.AttributeFirmware), d.text(rdma.AttributeNodeGUID))
	}
	return t
}

func (d *Device) rate() string {
	if r := d.text(rdma.AttributeRateGbps); r != "" {
		return r + "Gb/s"
	}
	return ""
}

// ClaimTable shows claims, with their ages at now.
func ClaimTable(claims []Claim, namespaces bool, now time.Time) *metav1.Table {
	names := []string{"Name", "State", "Node", "IBDevs", "Pods", "Age", "wide", "Classes", "Devices", "Addresses",
		"Not-Ready"}
	if namespaces {
		names = append([]string{"Namespace"}, names...)
	}
	t := Columns(names...)
	for _, c := range claims {
		age := "<unknown>"
		if !c.Created.IsZero() {
			age = duration.HumanDuration(now.Sub(c.Created.Time))
		}
		cells := []any{
			c.Name, string(c.State), c.Node, model.Few(c.IBDevs, 4), model.Few(c.Users(), 3), age,
			strings.Join(c.Classes, ","), model.Few(c.Devices, 8), model.Few(c.Addresses, 8), strings.Join(c.NotReady, "; "),
		}
		if namespaces {
			cells = append([]any{c.Namespace}, cells...)
		}
		Row(t, cells...)
	}
	return t
}

// Users returns the pods of a claim, and its PodGroups as "podgroup/NAME".
func (c *Claim) Users() []string {
	out := slices.Clone(c.Pods)
	for _, group := range c.PodGroups {
		out = append(out, "podgroup/"+group)
	}
	return out
}
