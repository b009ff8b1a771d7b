package rdma

import (
	"cmp"
	"fmt"
	"iter"
	"path"
	"slices"
)

// Domain is the project's one name: of the DRA driver, of its attributes and taints, of the API group, and the vendor
// of the CDI kinds.
const Domain = "rdma.dev"

// DevDir is the directory of the RDMA character devices. Containers must have it too, because
// libibverbs opens the nodes there under the kernel's names
// (rdma-core, libibverbs/init.c try_access_device).
const DevDir = "/dev/infiniband"

// Snapshot is the state of one host's RDMA devices at one time. Nobody changes it.
type Snapshot struct {
	// HCAs is sorted by physical function, then PF before SF before VF, then
	// address: the functions of one card stand together, and the order does not
	// depend on probe order.
	HCAs []HCA `json:"hcas"`
	// RDMACM is the host's connection manager node, nil without the rdma_ucm
	// module (/sys/class/misc/rdma_cm).
	RDMACM *Node `json:"rdmaCM,omitempty"`
	// NetnsMode says whether HCAs are shared by all network namespaces
	// (/sys/module/ib_core/parameters/netns_mode).
	NetnsMode NetnsMode `json:"netnsMode,omitempty"`
	// Problems lists what could not be read. A problem with one HCA leaves an
	// attribute of it absent. It never hides another HCA.
	Problems []Problem `json:"problems,omitempty"`
	// VPDProblems names the PCI functions with unreadable VPD, and the reasons. Their HCAs have all other attributes.
	VPDProblems []string `json:"vpdProblems,omitempty"`
}

// NetnsMode is how the RDMA core treats network namespaces
// (rdma-system(8); ib_core parameter netns_mode).
type NetnsMode string

const (
	// NetnsUnknown: the kernel does not say (before 5.2, or ib_core not loaded).
	NetnsUnknown NetnsMode = ""
	// NetnsShared: every network namespace may use every HCA.
	NetnsShared NetnsMode = "shared"
	// NetnsExclusive: an HCA belongs to one network namespace; opening its nodes
	// from another one gives EPERM.
	NetnsExclusive NetnsMode = "exclusive"
)

// Problem is one thing that could not be read.
type Problem struct {
	// IBDev is the affected HCA, "" if the problem is not about one.
	IBDev string `json:"ibdev,omitempty"`
	// Message names the path below sysfs and the reason.
	Message string `json:"message"`
}

// Error implements the error interface.
func (p Problem) Error() string {
	if p.IBDev == "" {
		return p.Message
	}
	return fmt.Sprintf("HCA %s: %s", p.IBDev, p.Message)
}

// Function is the kind of function of an HCA.
type Function string

// The kinds of function. A PCI function without a physfn link counts as a PF,
// also when a hypervisor passed a VF through to this host.
const (
	PF      Function = "pf"
	VF      Function = "vf"
	SF      Function = "sf"
	Virtual Function = "virtual" // soft-RoCE, soft-iWARP: no hardware of its own
)

// Protocol is the transport an HCA speaks.
type Protocol string

// The protocols, in the words of the kernel's DEV_PROTOCOL netlink attribute
// where it has one ("ib", "roce", "iw", "opa"), with EFA beside them.
const (
	ProtocolIB      Protocol = "ib"
	ProtocolRoCE    Protocol = "roce"
	ProtocolIWARP   Protocol = "iwarp"
	ProtocolEFA     Protocol = "efa"
	ProtocolOPA     Protocol = "opa"
	ProtocolUnknown Protocol = ""
)

// HCA is one RDMA device. A string that the kernel does not give is empty, a
// number that it does not give is nil.
type HCA struct {
	// Identity is the slot of the HCA, and Name the DNS-safe name made from it.
	Identity Identity `json:"identity"`
	Name     string   `json:"name"`
	// IBDev is the kernel's name, the entry of /sys/class/infiniband.
	IBDev    string   `json:"ibdev"`
	Function Function `json:"function"`
	Protocol Protocol `json:"protocol,omitempty"`
	// PF is the PCI address of the physical function behind a VF or SF.
	PF string `json:"pf,omitempty"`
	// VFIndex is K of the PF's link virtfnK to this VF.
	VFIndex *int `json:"vfIndex,omitempty"`
	// PCI describes the PCI function the HCA sits on (for an SF the function
	// that carries it, for soft-RoCE on an older kernel the network card's).
	PCI *PCIFunction `json:"pci,omitempty"`
	// DataDirect is the DMA function of the card, which moves the HCA's data: it is near a GPU, and PCI is not. It is nil
	// on cards without Data Direct (ConnectX-8 on some boards has it). See DataFunction.
	DataDirect *PCIFunction `json:"dataDirect,omitempty"`
	// Purpose is what the card says its function is for (SMDL of its VPD), or one of PurposeUnread and PurposeUnknown.
	Purpose string `json:"purpose,omitempty"`

	NodeType     NodeType `json:"nodeType,omitempty"`     // node_type
	NodeGUID     GUID     `json:"nodeGUID,omitempty"`     // node_guid; zero: not set
	SysImageGUID GUID     `json:"sysImageGUID,omitempty"` // sys_image_guid; zero: not set
	Firmware     string   `json:"firmware,omitempty"`     // fw_ver, in the driver's own form, not semver
	BoardID      string   `json:"boardID,omitempty"`      // board_id, on mlx5 the PSID
	Model        string   `json:"model,omitempty"`        // hca_type
	Driver       string   `json:"driver,omitempty"`       // driver of the PCI function or SF; rxe, siw

	// Software is what RDMA netlink says of a software HCA. It is nil for hardware, and where RDMA netlink was not asked
	// or did not answer.
	Software *Software `json:"software,omitempty"`

	Ports []Port `json:"ports"`
	// Uverbs is the verbs node. An HCA without one cannot be used by a program:
	// its driver has no user-space interface, or ib_uverbs is not loaded.
	Uverbs *Node `json:"uverbs,omitempty"`
	// PSM is the user device of an Omni-Path HCA, nil on others and where it is not known which one is the HCA's.
	PSM *Node `json:"psm,omitempty"`
	// MADs holds umad and issm nodes of all ports. EFA and iWARP have none.
	MADs []Node `json:"mads,omitempty"`
}

// Equal reports whether two HCAs are the same in every field. reflect.DeepEqual takes ten times as long: in a storm of
// events a driver with 1,016 HCAs would use half as much processor time again. TestEqual changes each field.
func (h *HCA) Equal(o *HCA) bool {
	return h.Name == o.Name && h.Identity.equal(&o.Identity) && h.IBDev == o.IBDev && h.Function == o.Function &&
		h.Protocol == o.Protocol && h.PF == o.PF && equalPointers(h.VFIndex, o.VFIndex) && h.PCI.equal(o.PCI) &&
		h.DataDirect.equal(o.DataDirect) && h.Purpose == o.Purpose &&
		h.NodeType == o.NodeType && h.NodeGUID == o.NodeGUID && h.SysImageGUID == o.SysImageGUID &&
		h.Firmware == o.Firmware && h.BoardID == o.BoardID && h.Model == o.Model && h.Driver == o.Driver &&
		equalPointers(h.Software, o.Software) &&
		slices.Equal(h.Ports, o.Ports) && equalPointers(h.Uverbs, o.Uverbs) && equalPointers(h.PSM, o.PSM) &&
		slices.Equal(h.MADs, o.MADs)
}

func (id *Identity) equal(o *Identity) bool {
	return id.PCI == o.PCI && equalPointers(id.SF, o.SF) &&
		id.Kind == o.Kind && id.Netdev == o.Netdev && id.Discriminator == o.Discriminator
}

func (f *PCIFunction) equal(o *PCIFunction) bool {
	if f == o || f == nil || o == nil {
		return f == o
	}
	return f.Address == o.Address && f.Vendor == o.Vendor && f.Device == o.Device &&
		equalPointers(f.NUMANode, o.NUMANode) && f.Root == o.Root && slices.Equal(f.Bridges, o.Bridges) &&
		equalPointers(f.TotalVFs, o.TotalVFs) && equalPointers(f.NumVFs, o.NumVFs)
}

func equalPointers[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// Software is a software HCA in the words of RDMA netlink. sysfs does not say which network namespace its interface is
// in: the file parent has only a name, and names and indexes of interfaces repeat between namespaces.
type Software struct {
	// Index is the kernel's number of the RDMA device. No other device gets it before the next boot, whatever the names.
	Index uint32 `json:"index"`
	// Netdev is the interface below it, "" if that is not the host's: a pod with NET_ADMIN can make such an HCA.
	Netdev string `json:"netdev,omitempty"`
}

// Port is one port of an HCA (/sys/class/infiniband/<ibdev>/ports/<number>).
type Port struct {
	Number    int       `json:"number"`
	LinkLayer LinkLayer `json:"linkLayer,omitempty"` // link_layer
	State     PortState `json:"state,omitempty"`     // state
	PhysState string    `json:"physState,omitempty"` // phys_state, as the kernel words it
	// RateMbps is the data rate in units of 10^6 bit/s, 0 if unknown. A port that
	// is not ACTIVE reports a rate that means nothing.
	RateMbps int    `json:"rateMbps,omitempty"` // file rate; on a RoCE LAG, file speed of the bond
	LAG      LAG    `json:"lag,omitzero"`
	LID      string `json:"lid,omitempty"` // lid, hexadecimal; of InfiniBand ports only
	// SubnetPrefix is the upper half of GID 0 of an InfiniBand port.
	SubnetPrefix GUID `json:"subnetPrefix,omitempty"` // gids/0
	// Netdev is the port's network interface, empty for EFA and for InfiniBand
	// without IPoIB; on a RoCE LAG the bond.
	Netdev string `json:"netdev,omitempty"` // gid_attrs/ndevs/0, else device/net
	// Representor marks a port that stands for a VF or SF of an embedded switch;
	// it carries none of this HCA's own traffic.
	Representor bool `json:"representor,omitempty"`
}

// NodeKind is the kind of a character device.
type NodeKind string

// The kinds of character devices; see the package comment.
const (
	NodeUverbs NodeKind = "uverbs"
	NodeUMAD   NodeKind = "umad"
	NodeISSM   NodeKind = "issm"
	NodeRDMACM NodeKind = "rdma_cm"
	NodePSM    NodeKind = "hfi1" // in /dev
)

// Node is a character device of the RDMA subsystem.
type Node struct {
	Kind NodeKind `json:"kind"`
	// Name is the kernel's name, e.g. uverbs0. It changes with probe order.
	Name string `json:"name"`
	// Major and Minor are the device number, from the node's dev file.
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
	// Port is the port of a umad or issm node, 0 for the others.
	Port int `json:"port,omitempty"`
	// Missing means that /dev lacks the node. Discover does not look there; who does marks its own snapshot. libibverbs
	// leaves such an HCA out (rdma-core, libibverbs/init.c try_access_device).
	Missing bool `json:"missing,omitempty"`
}

// Path is the node's path on the host and in every container.
func (n Node) Path() string {
	if n.Kind == NodePSM {
		return path.Join("/dev", n.Name)
	}
	return path.Join(DevDir, n.Name)
}

// Nodes lists the nodes of all HCAs, and rdma_cm.
func (s *Snapshot) Nodes() (list []*Node) {
	for i := range s.HCAs {
		list = append(list, s.HCAs[i].Nodes()...)
	}
	if s.RDMACM != nil {
		list = append(list, s.RDMACM)
	}
	return list
}

// Nodes lists the nodes of an HCA: those for verbs, PSM and management.
func (h *HCA) Nodes() (list []*Node) {
	for _, n := range []*Node{h.Uverbs, h.PSM} {
		if n != nil {
			list = append(list, n)
		}
	}
	for i := range h.MADs {
		list = append(list, &h.MADs[i])
	}
	return list
}

// OwnPorts iterates over the ports that carry the HCA's own traffic: all but representors.
func (h *HCA) OwnPorts() iter.Seq[*Port] {
	return func(yield func(*Port) bool) {
		for i := range h.Ports {
			if !h.Ports[i].Representor && !yield(&h.Ports[i]) {
				return
			}
		}
	}
}

// Port1 returns the first port that carries the HCA's own traffic, nil if there
// is none: the HCA of a representor, or one whose ports cannot be read.
func (h *HCA) Port1() *Port {
	for p := range h.OwnPorts() {
		return p
	}
	return nil
}

// DataFunction returns the PCI function that moves the HCA's data: DataDirect, or PCI without one. It is nil for a
// software HCA. Root, switch, NUMA node and distances are those of this function.
func (h *HCA) DataFunction() *PCIFunction { return cmp.Or(h.DataDirect, h.PCI) }

// Unusable returns the reason why the driver never gives this HCA to a container, or nil. The reason
// is the kind of device. Its health does not matter here.
func (h *HCA) Unusable() error {
	switch {
	case h.Uverbs == nil:
		return fmt.Errorf("HCA %s has no uverbs node: "+
			"load the ib_uverbs module, or this is a management-only device", h.IBDev)
	case h.Uverbs.Missing:
		return fmt.Errorf("HCA %s lacks its uverbs node in %s: udevadm trigger makes it on a host; in a container, the "+
			"container's configuration must give it", h.IBDev, DevDir)
	case len(h.Ports) > 0 && h.Port1() == nil:
		return fmt.Errorf("HCA %s is a representor of an embedded switch", h.IBDev)
	case h.Purpose == PurposeSwitchManager:
		return fmt.Errorf("HCA %s manages NVSwitches (its VPD has SMDL=%s): it belongs to the fabric manager, and is no "+
			"network HCA", h.IBDev, h.Purpose)
	case h.Purpose == PurposeUnread:
		return fmt.Errorf("HCA %s is new: its VPD, which says whether it is a network HCA, is being read", h.IBDev)
	}
	return nil
}

// Lookup returns the HCA with that device name, nil if there is none.
func (s *Snapshot) Lookup(name string) *HCA {
	for i := range s.HCAs {
		if s.HCAs[i].Name == name {
			return &s.HCAs[i]
		}
	}
	return nil
}

// Usable returns the HCAs that containers can use, in order.
func (s *Snapshot) Usable() []*HCA {
	var out []*HCA
	for i := range s.HCAs {
		if s.HCAs[i].Unusable() == nil {
			out = append(out, &s.HCAs[i])
		}
	}
	return out
}

// With returns a snapshot that also has the given HCAs, in its order. Each replaces an HCA with the
// same name. The receiver does not change.
func (s *Snapshot) With(hcas ...HCA) *Snapshot {
	out := *s
	out.HCAs = slices.DeleteFunc(slices.Clone(s.HCAs), func(h HCA) bool {
		return slices.ContainsFunc(hcas, func(other HCA) bool { return other.Name == h.Name })
	})
	out.HCAs = append(out.HCAs, hcas...)
	slices.SortFunc(out.HCAs, func(a, b HCA) int { return a.sortKey().compare(b.sortKey()) })
	return &out
}
