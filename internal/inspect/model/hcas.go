package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// HCA is an HCA of a node, as a test of its traffic needs it.
type HCA struct {
	Node string `json:"node"`
	// Name is the name of its device for one claim. IBDev is the kernel's name.
	Name  string `json:"name"`
	IBDev string `json:"ibdev,omitempty"`
	// Rail and Leaf are the attributes rail and leafSwitch, "" without: both need the driver's policy.
	Rail string `json:"rail,omitempty"`
	Leaf string `json:"leaf,omitempty"`
	// Protocol is ib, roce, efa or another one. Subnet is the prefix of an InfiniBand subnet.
	Protocol string `json:"protocol,omitempty"`
	Subnet   string `json:"subnet,omitempty"`
	// RateGbps is the rate of its port, 0 if it is not published.
	RateGbps int64 `json:"rateGbps,omitempty"`
	// Busy says why a claim could not get the HCA alone now, "" if it could. A taint of kubectl rdma drain does not count.
	Busy string `json:"busy,omitempty"`
}

// String names the HCA as people know it.
func (h *HCA) String() string { return h.Node + "/" + cmp.Or(h.IBDev, h.Name) }

// Published is an HCA, with the devices in which it is published. That for one claim is the first, if there is one.
type Published struct {
	HCA
	Devices []*Device
}

// Whole reports whether the HCA is neither a VF nor an SF. These share the port of their PF.
func (p *Published) Whole() bool {
	function := p.Devices[0].Text(rdma.AttributeFunction)
	return function != string(rdma.VF) && function != string(rdma.SF)
}

// Taints returns the taints of the HCA's devices, each once.
func (p *Published) Taints() (out []Taint) {
	seen := map[string]bool{}
	for _, d := range p.Devices {
		for _, t := range d.AllTaints() {
			if name := t.String(); !seen[name] {
				seen[name] = true
				out = append(out, t)
			}
		}
	}
	return out
}

// HCAs returns the published HCAs of nodes, by node and name. Groups are left out.
func (v *View) HCAs(nodes NodeChoice) []*Published { return hcasOf(v.Devices, nodes) }

// Incomplete returns the HCAs of pools with missing slices, from which the scheduler allocates nothing.
func (v *View) Incomplete() []*Published {
	complete := func(d *Device) bool { return v.pool[idOf(d.Slice)] != nil }
	return hcasOf(slices.DeleteFunc(slices.Collect(maps.Values(v.Known)), complete), NodeChoice{})
}

func hcasOf(devices []*Device, nodes NodeChoice) (out []*Published) {
	at := map[string]*Published{}
	for _, d := range devices {
		if d.Slice.Spec.Driver != rdma.Domain || d.Text(rdma.AttributeGroup) != "" || !nodes.Has(d.Node()) {
			continue
		}
		id := d.ID.Pool.String() + "/" + HCAOf(d.Name)
		p := at[id]
		if p == nil {
			p = &Published{}
			at[id] = p
			out = append(out, p)
		}
		p.Devices = append(p.Devices, d)
	}
	for _, p := range out {
		// The shorter name is that for one claim.
		slices.SortFunc(p.Devices, func(a, b *Device) int { return cmp.Compare(len(a.Name), len(b.Name)) })
		p.HCA = hcaOf(p.Devices[0])
	}
	slices.SortStableFunc(out, func(a, b *Published) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func hcaOf(d *Device) HCA {
	h := HCA{
		Node: d.Node(), Name: HCAOf(d.Name), IBDev: d.Text(rdma.AttributeIBDev), Rail: d.Text(rdma.AttributeRail),
		Leaf: d.Text(rdma.AttributeLeafSwitch), Protocol: d.Text(rdma.AttributeProtocol),
		Subnet: d.Text(rdma.AttributeSubnetPrefix),
	}
	if rate := d.Attributes[rdma.AttributeRateGbps].IntValue; rate != nil {
		h.RateGbps = *rate
	}
	return h
}

// ListHCAs returns the whole HCAs of nodes. Busy is filled if the caller asks for it: this asks the allocator for each.
func (c *Cluster) ListHCAs(ctx context.Context, busy bool, nodes NodeChoice) (out []HCA, err error) {
	v := c.View()
	for _, p := range v.HCAs(nodes) {
		if !p.Whole() {
			continue
		}
		if busy {
			if p.Busy, err = busyBecause(ctx, v, p.Devices[0]); err != nil {
				return nil, err
			}
		}
		out = append(out, p.HCA)
	}
	return out, nil
}

// busyBecause says why a claim cannot get a device alone, "" if it can.
func busyBecause(ctx context.Context, v *View, d *Device) (string, error) {
	if strings.HasPrefix(d.Name, SharedPrefix) {
		return "it is published for many claims only", nil
	}
	state, err := v.State(ctx, d)
	if err != nil {
		return "", err
	}
	if state != DeviceFree {
		if claims := v.Holdings.Names(d.ID); len(claims) > 0 {
			return "claim " + Few(claims, 2) + " has it", nil
		}
		return "claims have a part of it, or its pool has an error: it is " + string(state), nil
	}
	for _, t := range d.AllTaints() {
		if t.KeepsAway() && t.Key != DrainKey {
			return "taint " + t.Key + ":" + string(t.Effect), nil
		}
	}
	return "", nil
}

// TolerateDrain is what a claim needs to get an HCA that kubectl rdma drain took out of service: to test it after a
// repair.
func TolerateDrain() resourceapi.DeviceToleration {
	return resourceapi.DeviceToleration{Key: DrainKey, Operator: resourceapi.DeviceTolerationOpExists}
}

// SharedPrefix begins the name of an HCA's device for many claims.
const SharedPrefix = "shared-"

// HCAOf returns the name of the HCA of a device: that of its device for one claim.
func HCAOf(device string) string { return strings.TrimPrefix(device, SharedPrefix) }
