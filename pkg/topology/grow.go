package topology

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// branch is a node of the tree before fold: a root, a bridge or a device.
type branch struct {
	name     string
	device   *Device
	above    *branch
	children []*branch
	bridges  map[string]*branch // the children that are bridges, by address
}

// grow makes the tree of the devices with a position.
func grow(devices []*Device) []NUMANode {
	byRoot := map[string][]*Device{}
	for _, d := range devices {
		if d.Address != "" {
			byRoot[d.Root] = append(byRoot[d.Root], d)
		}
	}
	groups := map[int]*NUMANode{}
	for name, members := range byRoot {
		root := &branch{name: name, bridges: map[string]*branch{}}
		for _, d := range members {
			root.add(d)
		}
		number, key := agreed(members), math.MaxInt // an unknown NUMA node comes last
		if number != nil {
			key = *number
		}
		if groups[key] == nil {
			groups[key] = &NUMANode{Number: number}
		}
		n := &Node{Kind: NodeRoot, Name: name, Children: root.foldChildren()}
		groups[key].Roots = append(groups[key].Roots, n)
	}
	out := make([]NUMANode, 0, len(groups))
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		slices.SortFunc(groups[key].Roots, func(a, b *Node) int {
			// pciDDDD:BB, where a longer domain is a larger one.
			return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
		})
		out = append(out, *groups[key])
	}
	return out
}

// add adds a device below its bridges.
func (b *branch) add(d *Device) {
	at := b
	for _, bridge := range d.Bridges {
		next := at.bridges[bridge]
		if next == nil {
			next = &branch{name: bridge, above: at, bridges: map[string]*branch{}}
			at.children = append(at.children, next)
			at.bridges[bridge] = next
		}
		at = next
	}
	at.children = append(at.children, &branch{name: d.Address, device: d, above: at})
}

// fold returns the drawn nodes of a branch: the branch itself, or the nodes below it for a port.
func (b *branch) fold() []*Node {
	if b.device != nil {
		return []*Node{{Kind: NodeDevice, Name: b.device.Name, Device: b.device}}
	}
	children := b.foldChildren()
	switch {
	case b.isSwitch():
		return []*Node{{Kind: NodeSwitch, Name: b.name, Children: children}}
	case slots(children) > 1:
		return []*Node{{Kind: NodeBridge, Name: b.name, Children: children}}
	}
	for _, c := range children {
		c.Via = slices.Insert(c.Via, 0, b.name)
	}
	return children
}

// isSwitch reports whether a bridge is the upstream port of a switch. It has ports
// below it. The bridge above it is a root port or the downstream port of another switch.
func (b *branch) isSwitch() bool {
	isRootPort := b.above == nil || b.above.above == nil
	return !isRootPort && len(b.bridges) > 0 && !b.above.isSwitch()
}

func (b *branch) foldChildren() []*Node {
	var out []*Node
	for _, c := range b.children {
		out = append(out, c.fold()...)
	}
	slices.SortStableFunc(out, compareNodes)
	return out
}

// compareNodes orders accelerators before HCAs before switches.
func compareNodes(a, b *Node) int {
	return cmp.Or(
		cmp.Compare(a.rank(), b.rank()),
		rdma.ComparePCIAddresses(a.address(), b.address()),
		cmp.Compare(a.Name, b.Name),
	)
}

func (n *Node) rank() int {
	switch {
	case n.Device == nil:
		return 2
	case n.Device.Kind == HCA:
		return 1
	}
	return 0
}

func (n *Node) address() string {
	if n.Device != nil {
		return n.Device.Address
	}
	return n.Name
}

// slots counts the PCI slots of nodes. The functions of a card have the same slot.
func slots(nodes []*Node) int {
	seen := map[string]bool{}
	for _, n := range nodes {
		slot, _, _ := strings.Cut(n.address(), ".")
		seen[slot] = true
	}
	return len(seen)
}

// agreed returns the NUMA node of a root: the one that its devices have. It returns nil if no
// device has one, or they differ. A device without one may share a root with others
// that have one. Only its own distances are unknown then.
func agreed(devices []*Device) *int {
	var named *int
	for _, d := range devices {
		switch {
		case d.NUMANode == nil:
		case named == nil:
			named = d.NUMANode
		case *named != *d.NUMANode:
			return nil
		}
	}
	return named
}
