package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Observation is what was seen of a host at one moment.
type Observation struct {
	// Snapshot is the host.
	Snapshot *rdma.Snapshot
	// Held are the names of the HCAs that claims hold, there or not.
	Held []string
	// Unbound are those of Held that the snapshot lacks while their PCI function is
	// there: no driver has made an HCA of it.
	Unbound []string
	// Readings are what was read of ports beside the snapshot. A port without one is
	// not judged by it.
	Readings map[PortID]Reading
}

// read reports whether anything was read of an HCA beside the snapshot.
func (o *Observation) read(h *rdma.HCA) bool {
	for i := range h.Ports {
		if _, ok := o.Readings[PortID{h.Name, h.Ports[i].Number}]; ok {
			return true
		}
	}
	return false
}

// PortID names a port of an HCA.
type PortID struct {
	Device string // rdma.HCA.Name
	Port   int
}

// Reading is what was read of one port beside the snapshot.
type Reading struct {
	// RoutableGID is whether the port has a RoCE v2 GID that is not link-local, nil if the
	// table was not read (ports/<n>/gids, gid_attrs/types).
	RoutableGID *bool
	// Counters are error counters by name of their files; one that cannot be read is
	// absent.
	Counters map[string]uint64
}

// probe is one thing that is debounced: a condition of the HCA (port 0) or a port.
type probe struct {
	condition Condition
	port      int
}

// judgement is what one observation says of one probe, and why in words if it is bad.
type judgement struct {
	probe
	signal signal
	note   string
}

// when makes a judgement of a truth. It asks for the words only if they are needed:
// most HCAs of most hosts are well.
func when(isBad bool, c Condition, port int, note func() string) judgement {
	if isBad {
		return judgement{probe{c, port}, bad, note()}
	}
	return judgement{probe{c, port}, good, ""}
}

// fixed is a note that is always the same.
func fixed(note string) func() string { return func() string { return note } }

// judge judges an HCA that is there.
func judge(h *rdma.HCA) []judgement {
	out := []judgement{
		when(false, DeviceGone, 0, nil),
		when(false, DriverUnbound, 0, nil),
		when(h.Uverbs == nil, NoUverbs, 0, fixed("there is no uverbs node: load the module ib_uverbs")),
		when(h.NodeGUID == 0 && needsGUID(h.Protocol), NoGUID, 0, func() string { return guidNote(h) }),
		when(h.Port1() == nil, Unmonitored, 0, fixed("no port can be read")),
	}
	for p := range h.OwnPorts() {
		out = append(out, judgePort(p)...)
	}
	return out
}

func judgePort(p *rdma.Port) []judgement {
	if p.State == "" {
		return []judgement{
			{probe{PortDown, p.Number}, unknown, ""},
			{probe{Unmonitored, p.Number}, bad, fmt.Sprintf("the state of port %d cannot be read", p.Number)},
		}
	}
	return []judgement{
		when(p.State != rdma.PortActive, PortDown, p.Number, func() string { return explain(p) }),
		when(false, Unmonitored, p.Number, nil),
	}
}

// judgeAddress judges the GIDs of a port, which only RoCE makes of IP addresses.
func judgeAddress(h *rdma.HCA, p *rdma.Port, r Reading) judgement {
	if h.Protocol != rdma.ProtocolRoCE || r.RoutableGID == nil || p.State == "" {
		return judgement{probe{NoAddress, p.Number}, unknown, ""}
	}
	// A port that is down has lost its addresses with its link.
	return when(!*r.RoutableGID && p.State == rdma.PortActive, NoAddress, p.Number, func() string {
		return fmt.Sprintf("port %d has no RoCE v2 address but link-local ones: its interface %s has no IP address on this host, which a pod with an interface of its own need not mind",
			p.Number, cmp.Or(p.Netdev, "(unknown)"))
	})
}

// judgeAway judges an HCA that a claim holds and that is not there.
func judgeAway(unbound bool) []judgement {
	return []judgement{
		when(!unbound, DeviceGone, 0, fixed("the device is not there: it was removed, or its driver is not loaded")),
		when(unbound, DriverUnbound, 0, fixed("the PCI function is there, but no driver makes an RDMA device of it: load or bind its driver")),
	}
}

// needsGUID reports whether a protocol does not work without a node GUID: neither a
// subnet manager nor the connection manager deals with GUID zero.
func needsGUID(p rdma.Protocol) bool {
	return slices.Contains([]rdma.Protocol{rdma.ProtocolIB, rdma.ProtocolRoCE, rdma.ProtocolOPA}, p)
}

func guidNote(h *rdma.HCA) string {
	switch {
	case h.Function == rdma.VF && h.Protocol == rdma.ProtocolRoCE:
		return "the node GUID is zero: give the VF a MAC address on its PF, and bind its driver again"
	case h.Function == rdma.VF:
		return "the node GUID is zero: set node and port GUID of the VF on its PF, and bind its driver again"
	}
	return "the node GUID is zero: the firmware has none, or the driver could not read it"
}

// join makes one message of several, each once.
func join(notes []string) string {
	slices.Sort(notes)
	return strings.Join(slices.Compact(notes), "; ")
}
