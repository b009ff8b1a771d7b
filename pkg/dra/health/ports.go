package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Observation is the state of a host at one time.
type Observation struct {
	// Snapshot is the host.
	Snapshot *rdma.Snapshot
	// Held are the names of the HCAs that claims hold, present or not.
	Held []string
	// InPod are the HCAs that are in the network namespaces of pods.
	InPod map[string]bool
	// Unbound are the names in Held that the snapshot lacks while their PCI function is
	// present: no driver has made an HCA of the function.
	Unbound []string
	// Expected is what the policy expects of HCAs, by name. It is nil if that is not known yet.
	Expected map[string]Expected
	// PCIe are the states of the HCAs' PCIe links, by name. The conditions of PCIe do not change without it.
	PCIe map[string]PCIe
	// Firmware are the health reporters of the HCAs' firmware that exist, by name of the HCA. The condition of an HCA that
	// is absent does not change.
	Firmware map[string][]Reporter
	// Readings are the values of ports that the snapshot does not have. The conditions that
	// depend on them do not change for a port without a reading.
	Readings map[PortID]Reading
	// Wiring are the switches of ports that are both planned and seen. The condition of a port without them does not
	// change.
	Wiring map[PortID]Wiring
}

// hasReading reports whether there is a reading of an HCA's port.
func (o *Observation) hasReading(h *rdma.HCA) bool {
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

// Reading has the values of one port that the snapshot does not have.
type Reading struct {
	// RoutableGID is whether the port has a RoCE v2 GID that is not link-local, nil if the
	// table was not read (ports/<n>/gids, gid_attrs/types).
	RoutableGID *bool
	// Falls is how often the kernel has seen the port fall, nil if it does not count that
	// (carrier_down_count of the interface, link_downed).
	Falls *uint64
	// Moves changes whenever the driver moves the port's interface or the HCA into a pod, or back.
	Moves uint64
	// Counters are error counters by name (see Threshold); one that cannot be read is absent.
	Counters map[string]uint64
	// NoCable says that the kernel finds no cable at the port, and that the port never had a link in this boot. A link
	// that lost its cable is a fault.
	NoCable bool
}

// probe identifies a debounced signal: a condition of the HCA (port 0) or of a port.
type probe struct {
	condition Condition
	port      int
}

// judgement is the signal of one observation for one probe, with a message if it is bad.
type judgement struct {
	probe
	signal signal
	note   string
}

// judge makes a judgement. The note is for a bad one.
func judge(isBad bool, c Condition, port int, note string) judgement {
	if isBad {
		return judgement{probe{c, port}, bad, note}
	}
	return judgement{probe{c, port}, good, ""}
}

// judgeHCA judges an HCA that is present.
func judgeHCA(h *rdma.HCA, o *Observation) []judgement {
	out := []judgement{
		judge(false, DeviceGone, 0, ""),
		judge(false, DriverUnbound, 0, ""),
		judge(h.Uverbs == nil, NoUverbs, 0, "there is no uverbs node: load the module ib_uverbs"),
		judge(h.NodeGUID == 0 && needsGUID(h.Protocol), NoGUID, 0, guidNote(h)),
		judge(h.Port1() == nil, Unmonitored, 0, "no port can be read"),
	}
	for p := range h.OwnPorts() {
		out = append(out, judgePort(p, o.Readings[PortID{h.Name, p.Number}])...)
	}
	return out
}

func judgePort(p *rdma.Port, r Reading) []judgement {
	if p.State == "" {
		return []judgement{
			{probe{PortDown, p.Number}, unknown, ""},
			{probe{Unmonitored, p.Number}, bad, fmt.Sprintf("the state of port %d cannot be read", p.Number)},
		}
	}
	return []judgement{
		judge(p.State != rdma.PortActive, PortDown, p.Number, explain(p, r)),
		judge(false, Unmonitored, p.Number, ""),
	}
}

// judgeAddress judges the GIDs of a port. Only RoCE makes them from IP addresses, in a pod from those in there.
func judgeAddress(h *rdma.HCA, p *rdma.Port, o *Observation) judgement {
	r := o.Readings[PortID{h.Name, p.Number}]
	if h.Protocol != rdma.ProtocolRoCE || r.RoutableGID == nil || p.State == "" || o.InPod[h.Name] || o.away(h, p) {
		return judgement{probe{NoAddress, p.Number}, unknown, ""}
	}
	// A port that is down has lost its addresses with its link.
	return judge(!*r.RoutableGID && p.State == rdma.PortActive, NoAddress, p.Number, fmt.Sprintf(
		"port %d has only link-local RoCE v2 addresses: its interface %s has no IP address on this host. "+
			"A pod with an interface of its own does not need one", p.Number, p.Netdev))
}

// judgeAbsent judges an HCA that a claim holds and that is absent.
func judgeAbsent(unbound bool) []judgement {
	return []judgement{
		judge(!unbound, DeviceGone, 0, "the device is not there: it was removed, or its driver is not loaded"),
		judge(unbound, DriverUnbound, 0,
			"the PCI function is there, but no driver makes an RDMA device of it: load or bind its driver"),
	}
}

// needsGUID reports whether a protocol needs a node GUID: neither a subnet manager nor the
// connection manager accepts GUID zero.
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

// join makes one message from several, without duplicates.
func join(notes []string) string {
	slices.Sort(notes)
	return strings.Join(slices.Compact(notes), "; ")
}
