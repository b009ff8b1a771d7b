package inspect

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
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// NodeTopology is the picture of a node from its slices.
type NodeTopology struct {
	Node string `json:"node"`
	*topology.Topology
}

// Topologies draws the nodes that publish RDMA devices: all, or those with the given names.
// It adds devices of other drivers that have the standard attributes. Slices have the root
// and, for HCAs, the nearest switch above a device. The host itself knows more, and
// cdi-gen topology shows that.
func (c *Cluster) Topologies(ctx context.Context, names ...string) ([]NodeTopology, error) {
	v := c.view()
	byNode := map[string][]*device{}
	var nodes []string
	for _, d := range v.devices {
		node := d.node()
		byNode[node] = append(byNode[node], d)
		if len(names) == 0 && d.slice.Spec.Driver == driver || slices.Contains(names, node) {
			nodes = appendNew(nodes, node)
		}
	}
	slices.Sort(nodes)
	var out []NodeTopology
	for _, node := range nodes {
		devices, err := v.place(ctx, byNode[node])
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
func (v *view) place(ctx context.Context, devices []*device) ([]*topology.Device, error) {
	var others, hcas []*topology.Device
	seen := map[string]*topology.Device{} // what shows an HCA: it may be published twice
	family := map[string]*topology.Device{}
	for _, d := range devices {
		if d.slice.Spec.Driver != driver {
			if at := d.text(deviceattribute.StandardDeviceAttributePCIeRoot); at != "" {
				others = append(others, d.other(at))
			}
			continue
		}
		ibdev := d.text("ibdev")
		if ibdev == "" {
			continue // a group of HCAs has no position of its own
		}
		note, err := v.note(ctx, d)
		if err != nil {
			return nil, err
		}
		if seen[ibdev] == nil {
			h := d.hca(ibdev)
			pf := family[d.text("parentPCI")]
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

// other is a device of another driver: a GPU, or a network interface.
func (d *device) other(root string) *topology.Device {
	out := &topology.Device{
		Name: d.Name, Kind: topology.Accelerator, Root: root,
		Address:  d.text(deviceattribute.StandardDeviceAttributePCIBusID),
		NUMANode: d.number(deviceattribute.StandardDeviceAttributeNUMANode), Note: d.slice.Spec.Driver,
	}
	if strings.Contains(d.slice.Spec.Driver, "gpu") {
		out.Kind = topology.GPU
	}
	if out.Address == "" {
		out.Address = d.Name // it has a position, but an unknown address
	}
	out.Bridges = d.bridges(out.Address)
	if product := d.text("productName"); product != "" {
		out.Note = product
	}
	return out
}

func (d *device) hca(ibdev string) *topology.Device {
	out := &topology.Device{
		Name: ibdev, Kind: topology.HCA, Function: rdma.Function(d.text("function")),
		Root:     d.text(deviceattribute.StandardDeviceAttributePCIeRoot),
		NUMANode: d.number(deviceattribute.StandardDeviceAttributeNUMANode),
		Port: &topology.Port{
			Protocol: rdma.Protocol(d.text("protocol")), Netdev: d.text("netdev"), Rail: d.number("rail"),
		},
	}
	if out.Root != "" {
		out.Address = d.text(deviceattribute.StandardDeviceAttributePCIBusID)
		if out.Address == "" {
			out.Address = d.text("parentPCI")
		}
	}
	if rate := d.number("rateGbps"); rate != nil {
		// The driver publishes the rate only while the port is ACTIVE.
		out.Port.RateMbps, out.Port.State = *rate*1000, rdma.PortActive
	}
	out.Bridges = d.bridges(out.Address)
	return out
}

// bridges returns the path from the root to a device, as far as it is known. The slice has only the upstream port of a
// switch, so the other ports get invented names. The functions of a card are below one port.
func (d *device) bridges(address string) []string {
	slot, _, _ := strings.Cut(address, ".")
	if upstream := cmp.Or(d.text("pcieSwitch"), d.text(driver+"/pcieSwitch")); upstream != "" {
		return []string{"above " + upstream, upstream, "above " + slot}
	}
	return []string{"above " + slot}
}

func (d *device) number(name resourceapi.QualifiedName) *int {
	n, err := strconv.Atoi(d.text(name))
	if err != nil {
		return nil
	}
	return &n
}

// note returns the claims and the taints of a device.
func (v *view) note(ctx context.Context, d *device) (string, error) {
	r, err := v.report(ctx, d)
	if err != nil {
		return "", err
	}
	var parts []string
	switch {
	case r.State == DeviceAllocated:
		parts = append(parts, "allocated to "+few(r.Claims, 2))
	case len(r.Claims) > 0:
		parts = append(parts, fmt.Sprintf("used by %s", text.Count(len(r.Claims), "claim")))
	}
	return strings.Join(append(parts, r.Taints...), ", "), nil
}
