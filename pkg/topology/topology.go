package topology

import (
	"io/fs"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Topology is where the HCAs and accelerators of one host sit.
type Topology struct {
	// Devices holds the accelerators by PCI address, then the HCAs in the order
	// of the snapshot.
	Devices []*Device `json:"devices"`
	// NUMANodes holds the PCIe tree, a part for each NUMA node, in order of their
	// numbers. The part whose NUMA node is not known comes last.
	NUMANodes []NUMANode `json:"numaNodes"`
	// Problems lists what could not be read, of the PCI bus only: those of the
	// HCAs are in the snapshot.
	Problems []rdma.Problem `json:"problems,omitempty"`
}

// Kind is what a device is for.
type Kind string

// The kinds of devices.
const (
	HCA         Kind = "hca"
	GPU         Kind = "gpu"
	Accelerator Kind = "accelerator"
)

// Device is an HCA or an accelerator. What the kernel does not say is empty.
type Device struct {
	// Name is the ibdev name of an HCA; others are numbered: GPU0, ACC0.
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Address, Root and Bridges are the place in the PCIe tree, as in
	// [rdma.PCIFunction]. A software HCA has none.
	Address string   `json:"address,omitempty"`
	Root    string   `json:"root,omitempty"`
	Bridges []string `json:"bridges,omitempty"`
	// NUMANode is nil where the kernel says -1.
	NUMANode *int `json:"numaNode,omitempty"`
	// Vendor and ID are the PCI vendor and device, e.g. 10de and 2330.
	Vendor string `json:"vendor,omitempty"`
	ID     string `json:"id,omitempty"`
	// VFs and SFs count the virtual functions and subfunctions folded into this
	// device: those of its kind.
	VFs int `json:"vfs,omitempty"`
	SFs int `json:"sfs,omitempty"`
	// Port is what an HCA's first port says.
	Port *Port `json:"port,omitempty"`
	// Function is what an HCA is. It is pf for most; vf where the PF has no HCA,
	// and the first VF stands for all.
	Function rdma.Function `json:"function,omitempty"`
	// Note is what else is known of the device, as who has it.
	Note string `json:"note,omitempty"`
}

// Port is the part of an HCA's first port that a picture has room for.
type Port struct {
	Protocol rdma.Protocol  `json:"protocol,omitempty"`
	State    rdma.PortState `json:"state,omitempty"`
	RateMbps int            `json:"rateMbps,omitempty"`
	Netdev   string         `json:"netdev,omitempty"`
	// Rail is the rail of the network that the port is connected to, if a site
	// numbers them.
	Rail *int `json:"rail,omitempty"`
}

// NUMANode is the part of the PCIe tree that is near to one NUMA node.
type NUMANode struct {
	// Number is nil for roots that the kernel does not place: their functions say
	// -1 in numa_node, or do not agree.
	Number *int    `json:"number"`
	Roots  []*Node `json:"roots"`
}

// NodeKind is what a node of the tree is.
type NodeKind string

// The kinds of nodes.
const (
	NodeRoot   NodeKind = "root"
	NodeSwitch NodeKind = "switch"
	// NodeBridge is a bridge that is no switch and has several cards below it, as
	// on conventional PCI in a virtual machine.
	NodeBridge NodeKind = "bridge"
	NodeDevice NodeKind = "device"
)

// Node is a node of the PCIe tree.
type Node struct {
	Kind NodeKind `json:"kind"`
	// Name is that of the root, the address of the bridge, or the device's name.
	Name string `json:"name"`
	// Via is the chain of ports between the node above and this one.
	Via      []string `json:"via,omitempty"`
	Children []*Node  `json:"children,omitempty"`
	// Device is set on nodes of that kind.
	Device *Device `json:"-"`
}

// Discover reads the accelerators from sys, whose root is the host's /sys, and
// places them and the HCAs of a snapshot of the same tree. What cannot be read is
// in Topology.Problems, and the rest is still there.
func Discover(sys fs.ReadLinkFS, snap *rdma.Snapshot) *Topology {
	t := &Topology{Devices: []*Device{}, NUMANodes: []NUMANode{}}
	p := &pciBus{sys: sys}
	t.Devices = append(t.Devices, number(foldVFs(p.accelerators()))...)
	t.Devices = append(t.Devices, hcas(snap)...)
	t.Problems = p.problems
	t.NUMANodes = grow(t.Devices)
	return t
}

// Assemble places devices that are known from a source other than sysfs, such as devices that drivers publish of
// another host. The devices are in the order in which they are listed.
func Assemble(devices []*Device) *Topology {
	return &Topology{Devices: append([]*Device{}, devices...), NUMANodes: append([]NUMANode{}, grow(devices)...)}
}

// HCAs returns the HCAs, software HCAs included.
func (t *Topology) HCAs() []*Device {
	return t.where(func(d *Device) bool { return d.Kind == HCA })
}

// Accelerators returns GPUs and other accelerators.
func (t *Topology) Accelerators() []*Device {
	return t.where(func(d *Device) bool { return d.Kind != HCA })
}

// Software returns the HCAs that sit on no PCI function.
func (t *Topology) Software() []*Device {
	return t.where(func(d *Device) bool { return d.Address == "" })
}

func (t *Topology) where(keep func(*Device) bool) []*Device {
	var out []*Device
	for _, d := range t.Devices {
		if keep(d) {
			out = append(out, d)
		}
	}
	return out
}
