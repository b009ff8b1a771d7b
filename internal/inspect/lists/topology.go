package lists

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// NodeTopology is the picture of a node from its slices.
type NodeTopology struct {
	Node string `json:"node"`
	*topology.Topology
}

// Topologies draws the nodes that publish RDMA devices: all, or the chosen ones.
// It adds devices of other drivers that have the standard attributes. Slices have the root
// and, for HCAs, the nearest switch above a device. The host itself knows more, and
// cdi-gen topology shows that.
func Topologies(ctx context.Context, c *model.Cluster, chosen model.NodeChoice) ([]NodeTopology, error) {
	v := c.View()
	byNode := map[string][]*model.Device{}
	var nodes []string
	for _, d := range v.Devices {
		node := d.Node()
		byNode[node] = append(byNode[node], d)
		if chosen.All() && d.Slice.Spec.Driver == rdma.Domain || slices.Contains(chosen.Names, node) {
			nodes = model.AppendNew(nodes, node)
		}
	}
	slices.Sort(nodes)
	var out []NodeTopology
	for _, node := range nodes {
		devices, err := place(ctx, v, byNode[node])
		if err != nil {
			return nil, err
		}
		t := topology.Assemble(devices)
		hideBridges(t)
		out = append(out, NodeTopology{node, t})
	}
	return out, nil
}

// hideBridges removes the ports that bridges invented to make the tree.
func hideBridges(t *topology.Topology) {
	for _, d := range t.Devices {
		d.Bridges = nil
	}
	var hide func([]*topology.Node)
	hide = func(nodes []*topology.Node) {
		for _, n := range nodes {
			n.Via = nil
			hide(n.Children)
		}
	}
	for _, numa := range t.NUMANodes {
		hide(numa.Roots)
	}
}

// place converts published devices to devices of a picture, those of other drivers first, like
// accelerators in a host's picture.
func place(ctx context.Context, v *model.View, devices []*model.Device) ([]*topology.Device, error) {
	var others, hcas []*topology.Device
	seen := map[string]*topology.Device{} // what shows an HCA: it may be published twice
	family := map[string]*topology.Device{}
	for _, d := range devices {
		if d.Slice.Spec.Driver != rdma.Domain {
			if at := d.Text(deviceattribute.StandardDeviceAttributePCIeRoot); at != "" {
				others = append(others, otherDevice(d, at))
			}
			continue
		}
		ibdev := d.Text(rdma.AttributeIBDev)
		if ibdev == "" {
			continue // a group of HCAs has no position of its own
		}
		note, err := note(ctx, v, d)
		if err != nil {
			return nil, err
		}
		if seen[ibdev] == nil {
			h := hcaDevice(d, ibdev)
			pf := family[d.Text(rdma.AttributeParentPCI)]
			switch {
			case pf == nil:
				hcas = append(hcas, h)
				if h.Function == rdma.PF {
					family[h.Address] = h
				}
			case h.Function == rdma.SF:
				pf.SFs++
			default:
				pf.VFs++
			}
			seen[ibdev] = cmp.Or(pf, h)
		}
		drawn := seen[ibdev]
		drawn.Note = joinNotes(drawn.Note, prefixed(drawn, ibdev, note))
	}
	return append(others, hcas...), nil
}

// prefixed adds the name of a note's function, if the picture does not show that function.
func prefixed(drawn *topology.Device, ibdev, note string) string {
	if note == "" || drawn.Name == ibdev {
		return note
	}
	return ibdev + " " + note
}

func joinNotes(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || a == b:
		return a
	}
	return a + "; " + b
}

// otherDevice is a device of another driver: a GPU, or a network interface.
func otherDevice(d *model.Device, root string) *topology.Device {
	out := &topology.Device{
		Name: d.Name, Kind: topology.Accelerator, Root: root,
		Address:  d.Text(deviceattribute.StandardDeviceAttributePCIBusID),
		NUMANode: numberOf(d, deviceattribute.StandardDeviceAttributeNUMANode), Note: d.Slice.Spec.Driver,
	}
	if strings.Contains(d.Slice.Spec.Driver, "gpu") {
		out.Kind = topology.GPU
	}
	if out.Address == "" {
		out.Address = d.Name // it has a position, but an unknown address
	}
	out.Bridges = bridgesOf(d, out.Address)
	if product := d.Text("productName"); product != "" {
		out.Note = product
	}
	return out
}

func hcaDevice(d *model.Device, ibdev string) *topology.Device {
	out := &topology.Device{
		Name: ibdev, Kind: topology.HCA, Function: rdma.Function(d.Text(rdma.AttributeFunction)),
		Root:     d.Text(deviceattribute.StandardDeviceAttributePCIeRoot),
		NUMANode: numberOf(d, deviceattribute.StandardDeviceAttributeNUMANode),
		Port: &topology.Port{
			Protocol: rdma.Protocol(d.Text(rdma.AttributeProtocol)), Netdev: d.Text(rdma.AttributeNetdev),
			Rail: numberOf(d, rdma.AttributeRail),
		},
	}
	if out.Root != "" {
		out.Address = d.Text(deviceattribute.StandardDeviceAttributePCIBusID)
		if out.Address == "" {
			out.Address = d.Text(rdma.AttributeParentPCI)
		}
	}
	if rate := numberOf(d, rdma.AttributeRateGbps); rate != nil {
		// The driver publishes the rate only while the port is ACTIVE.
		out.Port.RateMbps, out.Port.State = *rate*1000, rdma.PortActive
	}
	out.Bridges = bridgesOf(d, out.Address)
	return out
}

// bridgesOf returns the path from the root to a device, as far as it is known. The slice has only the upstream port of
// a switch, so the other ports get invented names. The functions of a card are below one port.
func bridgesOf(d *model.Device, address string) []string {
	slot, _, _ := strings.Cut(address, ".")
	const name = rdma.AttributePCIeSwitch
	if upstream := cmp.Or(d.Text(name), d.Text(rdma.Domain+"/"+name)); upstream != "" {
		return []string{"above " + upstream, upstream, "above " + slot}
	}
	return []string{"above " + slot}
}

// note returns the claims and the taints of a device.
func note(ctx context.Context, v *model.View, d *model.Device) (string, error) {
	r, err := newDevice(ctx, v, d)
	if err != nil {
		return "", err
	}
	var parts []string
	switch {
	case r.State == model.DeviceAllocated:
		parts = append(parts, "allocated to "+model.Few(r.Claims, 2))
	case len(r.Claims) > 0:
		parts = append(parts, fmt.Sprintf("used by %s", text.Count(len(r.Claims), "claim")))
	}
	return strings.Join(append(parts, r.Taints...), ", "), nil
}

// numberOf returns an attribute that is a whole number, else nil.
func numberOf(d *model.Device, name resourceapi.QualifiedName) *int {
	n, err := strconv.Atoi(d.Text(name))
	if err != nil {
		return nil
	}
	return &n
}
