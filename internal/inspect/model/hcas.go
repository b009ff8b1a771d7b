package model

import (
	"cmp"
	"context"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// HCA is a whole HCA of a node, as a test of its traffic needs it.
type HCA struct {
	Node string `json:"node"`
	// Name is the name of its device for one claim. IBDev is the kernel's name.
	Name  string `json:"name"`
	IBDev string `json:"ibdev,omitempty"`
	// Rail and Leaf are the attributes rail and leafSwitch, "" without: both need the driver's configuration.
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

// ListHCAs returns the HCAs of nodes, or of all nodes, in the order of the nodes' names and of the devices. VFs, SFs
// and
// groups are left out. Busy is filled if the caller asks for it: this asks the allocator for each HCA.
func (c *Cluster) ListHCAs(ctx context.Context, busy bool, nodes ...string) ([]HCA, error) {
	v := c.View()
	var out []HCA
	at := map[string]int{}
	for _, d := range v.Devices {
		if !IsWhole(d) || len(nodes) > 0 && !slices.Contains(nodes, d.Node()) {
			continue
		}
		h := HcaOf(d)
		if busy {
			var err error
			if h.Busy, err = busyBecause(ctx, v, d); err != nil {
				return nil, err
			}
		}
		i, known := at[h.Node+"/"+h.Name]
		switch {
		case !known:
			at[h.Node+"/"+h.Name] = len(out)
			out = append(out, h)
		case !strings.HasPrefix(d.Name, SharedPrefix): // the form for one claim decides
			out[i] = h
		}
	}
	slices.SortStableFunc(out, func(a, b HCA) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// IsWhole reports whether a device is an HCA of this driver, in one of its forms.
func IsWhole(d *Device) bool {
	function := d.Text(rdma.AttributeFunction)
	return d.Slice.Spec.Driver == rdma.Domain && d.Text(rdma.AttributeGroup) == "" && function != "vf" && function != "sf"
}

func HcaOf(d *Device) HCA {
	h := HCA{
		Node: d.Node(), Name: HCAOf(d.Name), IBDev: d.Text(rdma.AttributeIBDev), Rail: d.Text(rdma.AttributeRail), Leaf: d.Text(rdma.AttributeLeafSwitch),
		Protocol: d.Text(rdma.AttributeProtocol), Subnet: d.Text(rdma.AttributeSubnetPrefix),
	}
	if rate := d.Attributes[rdma.AttributeRateGbps].IntValue; rate != nil {
		h.RateGbps = *rate
	}
	return h
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
		var claims []string
		for _, h := range v.Holders[d.ID] {
			claims = AppendNew(claims, ClaimName(h.Claim))
		}
		if len(claims) > 0 {
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

// sharedPrefix begins the name of an HCA's device for many claims.
const SharedPrefix = "shared-"

// HCAOf returns the name of the HCA of a device: that of its device for one claim.
func HCAOf(device string) string { return strings.TrimPrefix(device, SharedPrefix) }
