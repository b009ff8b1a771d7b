package report

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// entry describes an allocated device in the status of a claim.
type entry = resourceapi.AllocatedDeviceStatus

// DeviceData describes an allocated device in the status of its claim (status.devices[].data, KEP-4817). All fields
// must be in the order of their keys, as the API server encodes them for server-side apply. With other bytes it would
// refuse the apply of another driver.
type DeviceData struct {
	HCAs []HCAData `json:"hcas"`
}

// HCAData describes an HCA by the names that it has on its node now.
type HCAData struct {
	IBDev    string     `json:"ibdev"`
	Name     string     `json:"name"` // by its slot
	NodeGUID string     `json:"nodeGUID,omitempty"`
	Ports    []PortData `json:"ports,omitempty"`
}

// PortData describes a port without its state, which changes too often. The GIDs are of the last start of a container
// of the claim, or of the last change of the host.
type PortData struct {
	GIDs []GIDData `json:"gids,omitempty"`
	// Leaf is the other end of the cable: of the PF for a VF or SF.
	Leaf      *LeafData `json:"leaf,omitempty"`
	LinkLayer string    `json:"linkLayer,omitempty"`
	// Netdev is the port's interface while it is on the host.
	Netdev string `json:"netdev,omitempty"`
	Number int    `json:"number"`
}

// LeafData describes the switch to which a port is connected.
type LeafData struct {
	Fabric string `json:"fabric,omitempty"`
	Port   string `json:"port,omitempty"`
	// Since is when the driver began to know it.
	Since  time.Time `json:"since"`
	Switch string    `json:"switch"`
}

// GIDData is an entry of a port's GID table.
type GIDData struct {
	GID    string `json:"gid"` // an IPv4 address if the GID was made from one
	Index  int    `json:"index"`
	Netdev string `json:"netdev,omitempty"` // in any network namespace
	Type   string `json:"type,omitempty"`
}

// These constants are the condition of an allocated device.
const (
	conditionReady = "Ready"
	reasonPrepared = "Prepared"
	reasonMissing  = "DeviceMissing"
)

// ownConditions are the types of the conditions that the driver writes.
var ownConditions = []string{conditionReady, conditionUsable, conditionHealthy}

// entriesFor returns the entries in the status of a claim for the devices of its plan. A condition that is stored
// already keeps its time. A stored condition Usable stays until a container of the claim is checked again, because an
// earlier driver may have written it.
//
// The health is the last judged one. It may be of an earlier host than the names, which change only with the claim's
// spec.
func entriesFor(
	p *plan.Plan, host *node.Host, judged node.View,
	attached func(*plan.Plan, plan.Device) *resourceapi.NetworkDeviceData,
	checks checked, stored []entry, now metav1.Time,
) ([]entry, error) {
	var out []entry
	snap, gids := host.Snapshot, Addresses{host.Sys}
	leaves := judged.Leaves
	for _, d := range p.Devices {
		s := entry{Driver: rdma.Domain, Pool: d.Pool, Device: d.Device, ShareID: (*string)(d.ShareID)}
		same := func(o entry) bool { return sameDevice(s, o) }
		if slices.ContainsFunc(out, same) {
			continue // two requests have it, one of them for monitoring
		}
		data, missing := dataOf(d, snap, gids, leaves)
		ready := metav1.Condition{
			Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonPrepared, LastTransitionTime: now,
		}
		if missing != "" {
			ready.Status, ready.Reason = metav1.ConditionFalse, reasonMissing
			ready.Message = "the node has no RDMA device in the slot " + missing + " now"
		}
		s.Conditions = []metav1.Condition{ready}
		var before []metav1.Condition
		if i := slices.IndexFunc(stored, same); i >= 0 {
			before = stored[i].Conditions
		}
		if c := checks.condition(data.HCAs); c != nil {
			c.LastTransitionTime = now
			s.Conditions = append(s.Conditions, *c)
		} else if was := meta.FindStatusCondition(before, conditionUsable); was != nil {
			s.Conditions = append(s.Conditions, *was)
		}
		if c, ok := healthyCondition(d.HCAs(), judged.Health, meta.FindStatusCondition(before, conditionHealthy)); ok {
			c.LastTransitionTime = now
			s.Conditions = append(s.Conditions, c)
		}
		for i := range s.Conditions {
			c := &s.Conditions[i]
			if was := meta.FindStatusCondition(before, c.Type); was != nil && was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
		}
		raw, err := encode(data)
		if err != nil {
			return nil, err
		}
		s.Data, s.NetworkData = &runtime.RawExtension{Raw: raw}, attached(p, d)
		if s.NetworkData == nil {
			s.NetworkData = gids.network(d, snap)
		}
		out = append(out, s)
	}
	return out, nil
}

func sameDevice(a, b entry) bool {
	return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device &&
		equality.Semantic.DeepEqual(a.ShareID, b.ShareID)
}

// dataOf describes the HCAs of a device. missing is the name of an absent HCA, "" for none.
func dataOf(
	d plan.Device, snap *rdma.Snapshot, gids Addresses, leaves *leaf.View,
) (data DeviceData, missing string) {
	for _, name := range d.HCAs() {
		h := snap.Lookup(name)
		if h == nil {
			missing = name
			continue
		}
		hca := HCAData{Name: h.Name, IBDev: h.IBDev}
		if h.NodeGUID != 0 {
			hca.NodeGUID = h.NodeGUID.String()
		}
		for p := range h.OwnPorts() {
			hca.Ports = append(hca.Ports, PortData{
				Number: p.Number, LinkLayer: string(p.LinkLayer), Netdev: p.Netdev, GIDs: gidData(gids.gidsOf(h, p.Number)),
				Leaf: leafData(leaves.Port(h.Name, p.Number)),
			})
		}
		data.HCAs = append(data.HCAs, hca)
	}
	return data, missing
}

func leafData(s leaf.State) *LeafData {
	if s.Leaf == "" {
		return nil
	}
	return &LeafData{Fabric: s.Fabric, Port: s.Link.Port, Since: s.Since.UTC().Truncate(time.Second), Switch: s.Leaf}
}

func gidData(gids []rdma.GID) (out []GIDData) {
	for _, g := range gids {
		out = append(out, GIDData{Index: g.Index, GID: ipOf(g).String(), Type: g.Type, Netdev: g.Netdev})
	}
	return out
}

// encode encodes as much of the data as fits. It drops GIDs first, then ports, then the last HCAs of a large group.
func encode(data DeviceData) ([]byte, error) {
	for try := 1; ; try++ {
		raw, err := json.Marshal(data)
		if err != nil || len(raw) <= resourceapi.AllocatedDeviceStatusDataMaxLength {
			return raw, err
		}
		if try > 2 {
			data.HCAs = data.HCAs[:len(data.HCAs)/2]
			continue
		}
		for i := range data.HCAs {
			h := &data.HCAs[i]
			for j := range h.Ports {
				h.Ports[j].GIDs = nil
			}
			if try == 2 {
				h.Ports = nil
			}
		}
	}
}

// sameEntries reports whether two lists have the same meaning, for any times and any encoding of their data.
func sameEntries(a, b []entry) bool {
	if len(a) != len(b) {
		return false
	}
	for _, s := range a {
		i := slices.IndexFunc(b, func(o entry) bool { return sameDevice(s, o) })
		if i < 0 || !reflect.DeepEqual(meaning(s), meaning(b[i])) {
			return false
		}
	}
	return true
}

// meaning returns what an entry means: its conditions, its interface, and its data as a value.
func meaning(s entry) []any {
	var out []any
	for _, c := range s.Conditions {
		out = append(out, c.Type, c.Status, c.Reason, c.Message)
	}
	if n := s.NetworkData; n != nil {
		out = append(out, n.InterfaceName, n.HardwareAddress, slices.Clone(n.IPs))
	}
	if s.Data != nil {
		var data any
		if json.Unmarshal(s.Data.Raw, &data) == nil {
			out = append(out, data)
		}
	}
	return out
}

// entriesOf returns the entries of this driver and pool.
func entriesOf(devices []entry, pool string) []entry {
	return slices.DeleteFunc(slices.Clone(devices), func(d entry) bool {
		return d.Driver != rdma.Domain || d.Pool != pool
	})
}

// merged replaces entries of a claim as server-side apply does: conditions of other writers for the same device stay.
func merged(devices, want []entry) []entry {
	for _, s := range want {
		i := slices.IndexFunc(devices, func(o entry) bool { return sameDevice(s, o) })
		if i < 0 {
			devices = append(devices, s)
			continue
		}
		foreign := slices.DeleteFunc(devices[i].Conditions, func(c metav1.Condition) bool {
			return slices.Contains(ownConditions, c.Type)
		})
		s.Conditions = slices.Concat(s.Conditions, foreign)
		devices[i] = s
	}
	return devices
}
