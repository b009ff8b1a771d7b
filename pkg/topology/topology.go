package topology

import (
	"io/fs"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Topology has the positions of a host's HCAs and accelerators.
type Topology struct {
	// Devices holds the accelerators by PCI address, then the HCAs in the order
	// of the snapshot.
	Devices []*Device `json:"devices"`
	// NUMANodes holds the PCIe tree by NUMA node, in order of number. The unknown NUMA
	// node comes last.
	NUMANodes []NUMANode `json:"numaNodes"`
	// Problems lists what could not be read from the PCI bus. The snapshot has the
	// problems of HCAs.
	Problems []rdma.Problem `json:"problems,omitempty"`
}

// Kind is the kind of a device.
type Kind string

// The kinds of devices.
const (
	HCA         Kind = "hca"
	GPU         Kind = "gpu"
	Accelerator Kind = "accelerator"
)

// Device is an HCA or an accelerator. A value that the kernel does not have is empty.
type Device struct {
	// Name is the ibdev name of an HCA; others are numbered: GPU0, ACC0.
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Address, Root and Bridges are the position in the PCIe tree, as in
	// [rdma.PCIFunction]. A software HCA has none.
	Address string   `json:"address,omitempty"`
	Root    string   `json:"root,omitempty"`
	Bridges []string `json:"bridges,omitempty"`
	// NUMANode is nil where the kernel says -1.
	NUMANode *int `json:"numaNode,omitempty"`
	// DataDirect is the address of the DMA function that moves the data of an HCA, if the card has one. Root, Bridges
	// and NUMANode are those of this function.
	DataDirect string `json:"dataDirect,omitempty"`
	// Vendor and ID are the PCI vendor and device, e.g. 10de and 2330.
	Vendor string `json:"vendor,omitempty"`
	ID     string `json:"id,omitempty"`
	// VFs and SFs count the virtual functions and subfunctions that this device
	// represents, in addition to itself.
	VFs int `json:"vfs,omitempty"`
	SFs int `json:"sfs,omitempty"`
	// Port is the first port of an HCA.
	Port *Port `json:"port,omitempty"`
	// Function is the HCA's function. It is pf for most; vf where the PF has no HCA,
	// so that its first VF represents all.
	Function rdma.Function `json:"function,omitempty"`
	// Note is further text about the device, such as who holds it.
	Note string `json:"note,omitempty"`
}

// Port has the values of an HCA's first port for the picture.
type Port struct {
	Protocol rdma.Protocol  `json:"protocol,omitempty"`
	State    rdma.PortState `json:"state,omitempty"`
	RateMbps int            `json:"rateMbps,omitempty"`
	Netdev   string         `json:"netdev,omitempty"`
	// Rail is the rail of the network that the port is connected to, if the site numbers
	// its rails.
	Rail *int `json:"rail,omitempty"`
}

// NUMANode is the part of the PCIe tree next to one NUMA node.
type NUMANode struct {
	// Number is nil if the NUMA node is unknown: the functions have -1 in numa_node, or
	// different numbers.
	Number *int    `json:"number"`
	Roots  []*Node `json:"roots"`
}

// NodeKind is the kind of a node of the tree.
type NodeKind string

// The kinds of nodes.
const (
	NodeRoot   NodeKind = "root"
	NodeSwitch NodeKind = "switch"
	// NodeBridge is a bridge, but no switch, with several cards below it, as on
	// conventional PCI in a virtual machine.
	NodeBridge NodeKind = "bridge"
	NodeDevice NodeKind = "device"
)

// Node is a node of the PCIe tree.
type Node struct {
	Kind NodeKind `json:"kind"`
	// Name is the name of the root or device, or the address of the bridge.
	Name string `json:"name"`
	// Via is the chain of ports between the node above and this one.
	Via      []string `json:"via,omitempty"`
	Children []*Node  `json:"children,omitempty"`
	// Device is set on nodes of that kind.
	Device *Device `json:"-"`
}

// Discover reads the accelerators from sys, whose root is the host's /sys. It arranges them with the
// HCAs of a snapshot of the same tree. Topology.Problems lists the unreadable parts of the host. All other parts are
// complete.
func Discover(sys fs.ReadLinkFS, snap *rdma.Snapshot) *Topology {
	t := &Topology{Devices: []*Device{}, NUMANodes: []NUMANode{}}
	p := &pciBus{sys: sys}
	t.Devices = append(t.Devices, number(fold(p.accelerators()))...)
	t.Devices = append(t.Devices, hcas(snap)...)
	t.Problems = p.problems
	t.NUMANodes = grow(t.Devices)
	return t
}

// Assemble arranges devices from a source other than sysfs, such as published devices of another host. It keeps
// their order.
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

func (t *Topology) where(keep func(*Device) bool) []*Device {
	var out []*Device
	for _, d := range t.Devices {
		if keep(d) {
			out = append(out, d)
		}
	}
	return out
}
