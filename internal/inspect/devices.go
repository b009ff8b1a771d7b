package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// DeviceState says whether a claim could get a device now.
type DeviceState string

// The states.
const (
	DeviceFree      DeviceState = "Free"
	DeviceAllocated DeviceState = "Allocated" // one claim holds it
	DeviceShared    DeviceState = "Shared"    // claims hold shares of it, and some are free
	DeviceFull      DeviceState = "Full"      // claims hold all of its shares
	DeviceExcluded  DeviceState = "Excluded"  // a device that shares counters with it is allocated
	DeviceUnknown   DeviceState = "Unknown"   // its pool has an error, or claims could not be read
)

// DeviceStates are all states. The first ones leave something to a new claim.
var DeviceStates = []DeviceState{
	DeviceFree, DeviceShared, DeviceFull, DeviceAllocated, DeviceExcluded, DeviceUnknown,
}

// Device is a published RDMA device.
type Device struct {
	Node string `json:"node"`
	Name string `json:"name"`
	// State is about claims, Taints about the device: KEY:EFFECT, and " (rule NAME)" if a DeviceTaintRule sets the taint.
	State  DeviceState `json:"state"`
	Taints []string    `json:"taints,omitempty"`
	Claims []string    `json:"claims,omitempty"`
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
	// Nodes are names of nodes.
	Nodes []string
	// Class is the name of a DeviceClass; Expression is CEL, as in its selector.
	Class, Expression string
}

// ListDevices returns the RDMA devices that match a filter, by node, in the scheduler's order of
// allocation.
func (c *Cluster) ListDevices(ctx context.Context, f DeviceFilter) ([]Device, error) {
	v := c.view()
	selectors, err := v.selectors(f)
	if err != nil {
		return nil, err
	}
	var out []Device
	for _, d := range v.devices {
		if d.slice.Spec.Driver != driver || len(f.Nodes) > 0 && !slices.Contains(f.Nodes, d.node()) {
			continue
		}
		i, err := v.cel.firstMismatch(ctx, selectors, d)
		if err != nil {
			return nil, fmt.Errorf("select devices: %w", err)
		}
		if i >= 0 {
			continue
		}
		reported, err := v.report(ctx, d)
		if err != nil {
			return nil, err
		}
		out = append(out, reported)
	}
	return out, nil
}

func (v *view) selectors(f DeviceFilter) ([]resourceapi.DeviceSelector, error) {
	var out []resourceapi.DeviceSelector
	if f.Class != "" {
		class := v.classes[f.Class]
		if class == nil && v.Cluster.Unread.has(Classes) {
			return nil, fmt.Errorf("find DeviceClass %q: the DeviceClasses could not be read", f.Class)
		}
		if class == nil {
			return nil, fmt.Errorf("find DeviceClass %q: it does not exist; name one of: %s", f.Class, v.classes.names())
		}
		out = slices.Clone(class.Spec.Selectors)
	}
	if f.Expression != "" {
		out = append(out, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: f.Expression}})
	}
	return out, nil
}

func (v *view) report(ctx context.Context, d *device) (Device, error) {
	out := Device{Node: d.node(), Name: d.Name, Attributes: d.attributes(), Capacity: v.holders.used(d)}
	for _, t := range d.taints() {
		name := fmt.Sprintf("%s:%s", t.Key, t.Effect)
		if t.rule != "" {
			name += " (rule " + t.rule + ")"
			out.rules = appendNew(out.rules, t.rule)
		}
		out.Taints = append(out.Taints, name)
		out.tainted = out.tainted || t.keepsAway()
	}
	slices.Sort(out.Taints)
	for _, h := range v.holders[d.id] {
		name := claimName(h.claim)
		if h.admin() {
			name += " (admin)"
		}
		out.Claims = appendNew(out.Claims, name)
	}
	slices.Sort(out.Claims)
	var err error
	out.State, err = v.state(ctx, d)
	return out, err
}

// state calls the allocator where the claims of the device do not determine the state.
func (v *view) state(ctx context.Context, d *device) (DeviceState, error) {
	if slices.ContainsFunc(v.holders[d.id], holder.exclusive) {
		return DeviceAllocated, nil
	}
	if v.Cluster.Unread.has(Claims) {
		return DeviceUnknown, nil
	}
	ruling, err := v.ruleByAmount(ctx, nil, d)
	switch {
	case v.pool[idOf(d.slice)].invalid:
		return DeviceUnknown, nil
	case timeIsOver(err):
		return "", err
	case err != nil:
		return DeviceUnknown, nil
	case ruling.Reason == RuledCounters:
		return DeviceExcluded, nil
	case ruling.Reason != "":
		return DeviceFull, nil
	case slices.ContainsFunc(v.holders[d.id], holder.takes):
		return DeviceShared, nil
	}
	return DeviceFree, nil
}

// attributes returns the attributes as JSON values.
func (d *device) attributes() map[string]any {
	out := map[string]any{}
	for name, a := range d.Attributes {
		out[strings.TrimPrefix(string(name), driver+"/")] = value(a)
	}
	return out
}

func value(a resourceapi.DeviceAttribute) any {
	switch {
	case a.IntValue != nil:
		return *a.IntValue
	case a.BoolValue != nil:
		return *a.BoolValue
	case a.StringValue != nil:
		return *a.StringValue
	case a.VersionValue != nil:
		return *a.VersionValue
	case a.IntValues != nil:
		return a.IntValues
	case a.BoolValues != nil:
		return a.BoolValues
	case a.StringValues != nil:
		return a.StringValues
	}
	return a.VersionValues
}

// text returns an attribute as text, "" if it is absent.
func (d *device) text(name resourceapi.QualifiedName) string {
	if a, ok := d.Attributes[name]; ok {
		return fmt.Sprint(value(a))
	}
	return ""
}

// text returns an attribute of a reported device as text, "" if it is absent.
func (d *Device) text(name string) string {
	if v, ok := d.Attributes[name]; ok {
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
