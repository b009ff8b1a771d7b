package lists

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Device is a published RDMA device.
type Device struct {
	Node string `json:"node"`
	Name string `json:"name"`
	// State is about claims, Taints about the device: KEY:EFFECT, and " (rule NAME)" if a DeviceTaintRule sets the taint.
	State  model.DeviceState `json:"state"`
	Taints []string          `json:"taints,omitempty"`
	Claims []string          `json:"claims,omitempty"`
	// Attributes are the published attributes; names without a domain are of rdma.dev.
	Attributes map[string]any      `json:"attributes"`
	Capacity   map[string]Capacity `json:"capacity,omitempty"`

	tainted bool     // a taint keeps new claims away
	rules   []string // the rules that taint it
}

// Capacity is the total capacity of a shared device, and the part that claims hold.
type Capacity struct {
	Total string `json:"total"`
	Used  string `json:"used"`
}

// DeviceFilter selects devices. An empty field selects all.
type DeviceFilter struct {
	Nodes model.NodeChoice
	// Class is the name of a DeviceClass; Expression is CEL, as in its selector.
	Class, Expression string
}

// Devices returns the RDMA devices that match a filter, by node, in the scheduler's order of
// allocation.
func Devices(ctx context.Context, c *model.Cluster, f DeviceFilter) ([]Device, error) {
	v := c.View()
	selectors, err := selectorsOf(v, f)
	if err != nil {
		return nil, err
	}
	var out []Device
	for _, d := range v.Devices {
		if d.Slice.Spec.Driver != rdma.Domain || !f.Nodes.Has(d.Node()) {
			continue
		}
		i, err := v.CEL.FirstMismatch(ctx, selectors, d)
		if err != nil {
			return nil, fmt.Errorf("select devices: %w", err)
		}
		if i >= 0 {
			continue
		}
		listed, err := newDevice(ctx, v, d)
		if err != nil {
			return nil, err
		}
		out = append(out, listed)
	}
	return out, nil
}

func selectorsOf(v *model.View, f DeviceFilter) ([]resourceapi.DeviceSelector, error) {
	var out []resourceapi.DeviceSelector
	if f.Class != "" {
		class := v.Classes[f.Class]
		if class == nil && v.Cluster.Unread.Has(model.Classes) {
			return nil, fmt.Errorf("find DeviceClass %q: the DeviceClasses could not be read", f.Class)
		}
		if class == nil {
			return nil, fmt.Errorf("find DeviceClass %q: it does not exist; name one of: %s", f.Class, v.Classes.Names())
		}
		out = slices.Clone(class.Spec.Selectors)
	}
	if f.Expression != "" {
		out = append(out, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: f.Expression}})
	}
	return out, nil
}

// newDevice returns a published device with its taints, its claims and its state.
func newDevice(ctx context.Context, v *model.View, d *model.Device) (Device, error) {
	out := Device{Node: d.Node(), Name: d.Name, Attributes: attributesOf(d), Capacity: capacitiesUsed(v.Holdings, d)}
	for _, t := range d.AllTaints() {
		name := fmt.Sprintf("%s:%s", t.Key, t.Effect)
		if t.Rule != "" {
			name += " (rule " + t.Rule + ")"
			out.rules = model.AppendNew(out.rules, t.Rule)
		}
		out.Taints = append(out.Taints, name)
		out.tainted = out.tainted || t.KeepsAway()
	}
	slices.Sort(out.Taints)
	for _, h := range v.Holdings[d.ID] {
		name := model.ClaimName(h.Claim)
		if h.Admin() {
			name += " (admin)"
		}
		out.Claims = model.AppendNew(out.Claims, name)
	}
	slices.Sort(out.Claims)
	var err error
	out.State, err = v.State(ctx, d)
	return out, err
}

// attributesOf returns the attributes as JSON values.
func attributesOf(d *model.Device) map[string]any {
	out := map[string]any{}
	for name, a := range d.Attributes {
		out[strings.TrimPrefix(string(name), rdma.Domain+"/")] = model.Value(a)
	}
	return out
}

// text returns an attribute as text, "" if it is absent.
func (d *Device) text(name resourceapi.QualifiedName) string {
	if v, ok := d.Attributes[string(name)]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

// Number returns an attribute that is a whole number, and otherwise the number for devices without it.
func (d *Device) Number(name string, absent int64) int64 {
	if n, ok := d.Attributes[name].(int64); ok {
		return n
	}
	return absent
}

// shares lists the used part of each capacity: "shares 3/63".
func (d *Device) shares() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		parts = append(parts, fmt.Sprintf("%s %s/%s", name, d.Capacity[name].Used, d.Capacity[name].Total))
	}
	return strings.Join(parts, ", ")
}

// capacitiesUsed sums up the capacities of a shared device that claims hold.
func capacitiesUsed(all model.Holdings, d *model.Device) map[string]Capacity {
	if !ptr.Deref(d.AllowMultipleAllocations, false) {
		return nil
	}
	out := map[string]Capacity{}
	for name, c := range d.Capacity {
		sum := c.Value.DeepCopy()
		sum.Set(0)
		for _, h := range all[d.ID] {
			sum.Add(h.Result.ConsumedCapacity[name])
		}
		out[string(name)] = Capacity{c.Value.String(), sum.String()}
	}
	return out
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
