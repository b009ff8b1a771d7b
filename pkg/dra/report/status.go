package report

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/apiclient"
	"github.com/rdma-dev/dra-driver-rdma/internal/driver/podresources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/blocks"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/nodestatus"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// Inputs are what a status is made from, and what a scrape reads beside it.
type Inputs struct {
	Node, Version string
	Started, Now  time.Time
	View          node.View
	// Pods are the kubelet's pods with their claims. If the kubelet does not answer, Pods is nil and NoPods is the
	// reason.
	Pods   podresources.Claims
	NoPods error
	// Decision is what is published or will be published. Published are the devices that the API server has now, by name.
	Decision  *policy.Result
	Published map[string][]*rdma.HCA
	// Taints are the taints of HCAs, by name.
	Taints map[string][]resourceapi.DeviceTaint
	// Effect returns the effect of a condition under the present policy.
	Effect func(health.Condition) resourceapi.DeviceTaintEffect
	// Registered means that the kubelet has registered the driver. NRIConnected means that the container runtime has
	// the driver's plugin. It is nil if the driver uses no NRI.
	Registered   bool
	NRIConnected *bool
	// Refused means that the policy is not used as it is now.
	Refused bool
	// Problems are the problems that concern more than one HCA.
	Problems []error
	Troubles *apiclient.Troubles
	// Lacks are what containers do not get on this host.
	Lacks []error
	// Features are those of the API server. Unmatched is what of the file matches nothing on the host.
	Features  policy.Features
	Unmatched []string
	// IPAM has the entries of ipam. Status adds their HCAs.
	IPAM []blocks.Usage
	// Events are the recent events of the node, the newest first.
	Events []nodestatus.Event
	// Cgroups is the host's cgroup file system.
	Cgroups fs.FS
}

// Status describes the node. It reads the positions of the host's PCI devices.
func Status(in Inputs) *nodestatus.Status {
	s := describe(in)
	s.Topology = topology.Discover(in.View.Sys, in.View.Snapshot)
	drawState(s)
	capacities := map[string]map[string]nodestatus.Capacity{}
	for _, slice := range in.Decision.Slices() {
		for _, d := range slice.Devices {
			capacities[d.Name] = capacitiesOf(d)
		}
	}
	for d := range s.Devices() {
		d.Capacity = capacities[d.Name]
	}
	return s
}

// describe describes the node as far as a scrape needs it: without the positions of its devices, and without the
// capacities of what it publishes. It reads nothing.
func describe(in Inputs) *nodestatus.Status {
	s := &nodestatus.Status{
		Node: in.Node, Version: in.Version, Started: in.Started, At: in.Now, NetnsMode: string(in.View.NetnsMode),
		Registered: in.Registered, NRI: in.nri(), PodsKnown: in.Pods != nil, ConfigRefused: in.Refused,
		Problems: in.problems(), Unapplied: in.Decision.Unapplied, IPAM: in.ipam(), Events: in.Events,
		Features: in.Features, Notes: slices.Concat(in.Features.Notes(), in.Unmatched),
	}
	for _, lack := range in.Lacks {
		s.Lacks = append(s.Lacks, lack.Error())
	}
	s.HCAs = in.hcas()
	for _, g := range in.Decision.Groups {
		group := nodestatus.Group{Name: g.Group.Name, Reason: g.Reason, Members: []string{}}
		for _, h := range g.Group.Members {
			group.Members = append(group.Members, h.Name)
		}
		group.Devices = in.published(devicename.Group(g.Group.Name))
		group.Published = group.Devices != nil
		s.Groups = append(s.Groups, group)
	}
	s.Claims = statusClaims(in.View, in.Pods)
	return s
}

// published returns the devices among the named ones that the API server has.
func (in *Inputs) published(names ...string) (out []nodestatus.Device) {
	for _, name := range names {
		if in.Published[name] != nil {
			out = append(out, nodestatus.Device{Name: name})
		}
	}
	return out
}

func capacitiesOf(d resourceapi.Device) map[string]nodestatus.Capacity {
	if len(d.Capacity) == 0 {
		return nil
	}
	out := map[string]nodestatus.Capacity{}
	for name, c := range d.Capacity {
		one := nodestatus.Capacity{Total: c.Value.String()}
		if c.RequestPolicy != nil && c.RequestPolicy.Default != nil {
			one.Default = c.RequestPolicy.Default.String()
		}
		out[string(name)] = one
	}
	return out
}

// ipam returns the entries of ipam with the HCAs, as ibdev names, whose rail has the entry.
func (in *Inputs) ipam() (out []blocks.Usage) {
	for _, one := range in.IPAM {
		one.HCAs = []string{}
		for _, d := range in.Decision.Decisions {
			if d.IPAM == one.IPAM {
				one.HCAs = append(one.HCAs, d.HCA.IBDev)
			}
		}
		out = append(out, one)
	}
	return out
}

const nriConnected = "connected"

func (in *Inputs) nri() string {
	switch {
	case in.NRIConnected == nil:
		return ""
	case *in.NRIConnected:
		return nriConnected
	default:
		return "not connected"
	}
}

// problems returns the problems that concern more than one HCA.
func (in *Inputs) problems() []string {
	out := []string{}
	for _, err := range in.Problems {
		out = append(out, err.Error())
	}
	if in.NoPods != nil {
		out = append(out, "which pods use a claim is not known: "+in.NoPods.Error())
	}
	for _, trouble := range in.Troubles.Current() {
		out = append(out, "trouble with the API server: "+trouble.String())
	}
	for _, p := range in.View.Problems {
		out = append(out, p.Error())
	}
	return out
}

// hcas describes the HCAs that are present, and missing HCAs that claims hold.
func (in *Inputs) hcas() []nodestatus.HCA {
	view, holders := in.View.Health, holdersOf(in.View.Plans)
	decisions := map[string]*policy.Decision{}
	for i := range in.Decision.Decisions {
		decisions[in.Decision.Decisions[i].HCA.Name] = &in.Decision.Decisions[i]
	}
	out := []nodestatus.HCA{}
	for _, h := range in.View.With(in.View.Absent()...).HCAs {
		one := statusHCA(&h, in.View.Leaves)
		one.Absent = in.View.Lookup(h.Name) == nil
		if verdict, judged := view.Verdict(h.Name); judged {
			status, _ := view.Report(h.Name, in.Now)
			one.Health, one.Fault = string(status), verdict.Message()
			one.Conditions, one.Unused = in.conditions(verdict), verdict.Unused
			if history := view.History(h.Name); !in.Started.IsZero() { // else no driver has seen it change
				one.History, one.Falls = history.Summary(), history.Falls
				for _, c := range history.Recent {
					one.Recent = append(one.Recent, nodestatus.Change{At: c.Last, Text: c.String()})
				}
			}
		}
		for _, t := range in.Taints[h.Name] {
			one.Taints = append(one.Taints, t.Key+":"+string(t.Effect))
		}
		if decision := decisions[h.Name]; decision != nil {
			one.Devices = append(one.Devices, in.published(h.Name, devicename.Shared(h.Name))...)
			decide(&one, decision)
		}
		one.Claims = append(one.Claims, holders[h.Name]...)
		out = append(out, one)
	}
	return out
}

// decide says what the policy makes of an HCA, whose devices it has.
func decide(h *nodestatus.HCA, d *policy.Decision) {
	h.Rule, h.Wanted, h.Published, h.Reason = d.Rule, string(d.Wanted), string(d.Form), d.Reason
	h.Marks, h.VLAN = d.Marks, d.VLAN
	if len(h.Devices) == 0 {
		return
	}
	for name, a := range d.Offer.Attributes {
		if h.Attributes == nil {
			h.Attributes = map[string]any{}
		}
		h.Attributes[string(name)] = valueOf(a)
	}
}

func valueOf(a resourceapi.DeviceAttribute) any {
	switch {
	case a.StringValue != nil:
		return *a.StringValue
	case a.IntValue != nil:
		return *a.IntValue
	case a.BoolValue != nil:
		return *a.BoolValue
	case a.VersionValue != nil:
		return *a.VersionValue
	}
	return nil
}

// conditions describes the conditions that hold for an HCA. An HCA that a claim holds and that is gone is sick.
func (in *Inputs) conditions(v health.Verdict) (out []nodestatus.Condition) {
	for _, f := range v.Faults {
		sick := f.Condition.Sick() || f.Condition.Absent()
		unused := v.Unused && f.Condition == health.PortDown
		out = append(out, nodestatus.Condition{
			Condition: string(f.Condition), Since: f.Since, Message: f.Message,
			Sick: sick && !unused && in.Effect(f.Condition) != health.EffectOff,
		})
	}
	return out
}

// statusLeaf describes the switch of a port, nil if there is nothing to say of it.
func statusLeaf(s leaf.State) *nodestatus.Leaf {
	if s.Leaf == "" && s.Why == "" {
		return nil
	}
	out := &nodestatus.Leaf{Switch: s.Leaf, Port: s.Link.Port, Fabric: s.Fabric, Reason: s.Why}
	if s.Leaf != "" {
		out.Source, out.Since, out.Seen = string(s.Source), &s.Since, &s.Seen
	}
	if s.Planned.Leaf != "" {
		out.Planned = s.Planned.String()
	}
	return out
}

func statusHCA(h *rdma.HCA, leaves *leaf.View) nodestatus.HCA {
	out := nodestatus.HCA{
		Name: h.Name, IBDev: h.IBDev, Function: string(h.Function), Protocol: string(h.Protocol),
		Driver: h.Driver, Model: h.Model, BoardID: h.BoardID, Firmware: h.Firmware,
		Ports: []nodestatus.Port{}, Devices: []nodestatus.Device{}, Claims: []string{},
	}
	if h.PCI != nil {
		out.PCI, out.NUMANode = h.PCI.Address, h.DataFunction().NUMANode
	}
	for p := range h.OwnPorts() {
		port := nodestatus.Port{
			Number: p.Number, State: string(p.State), Netdev: p.Netdev, Leaf: statusLeaf(leaves.Port(h.Name, p.Number)),
		}
		if p.State == rdma.PortActive {
			port.RateMbps, port.PCIeMbps = p.RateMbps, p.LAG.PCIeMbps
		}
		out.Ports = append(out.Ports, port)
	}
	return out
}

// holdersOf returns the claims of each HCA, as namespace/name.
func holdersOf(plans []*plan.Plan) map[string][]string {
	out := map[string][]string{}
	for _, p := range plans {
		for _, hca := range p.HCAs() {
			out[hca] = append(out[hca], p.Claim())
		}
	}
	for _, claims := range out {
		slices.Sort(claims)
	}
	return out
}

func statusClaims(view node.View, pods podresources.Claims) []nodestatus.Claim {
	out := []nodestatus.Claim{}
	for _, p := range view.Plans {
		claim := nodestatus.Claim{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
			Devices: []nodestatus.ClaimDevice{}, Pods: []string{}}
		users := pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
		for _, dev := range p.Devices {
			one := nodestatus.ClaimDevice{Request: dev.Request, Device: dev.Device, AdminAccess: dev.AdminAccess}
			if dev.ShareID != nil {
				one.ShareID = string(*dev.ShareID)
			}
			for _, name := range dev.HCAs() {
				if h := view.Lookup(name); h != nil {
					name = h.IBDev
				}
				one.HCAs = append(one.HCAs, name)
			}
			for _, pod := range users {
				if pod.Devices == nil || slices.Contains(pod.Devices, dev.Device) {
					one.Pods = append(one.Pods, pod.Name)
				}
			}
			claim.Devices = append(claim.Devices, one)
		}
		for _, pod := range users {
			claim.Pods = append(claim.Pods, pod.Name)
		}
		out = append(out, claim)
	}
	slices.SortFunc(out, func(a, b nodestatus.Claim) int {
		return slices.Compare([]string{a.Namespace, a.Name, a.UID}, []string{b.Namespace, b.Name, b.UID})
	})
	return out
}

// drawState adds to the picture of the host which claims have an HCA, and that an HCA is not healthy.
func drawState(s *nodestatus.Status) {
	hcas := map[string]*nodestatus.HCA{}
	for i := range s.HCAs {
		hcas[s.HCAs[i].IBDev] = &s.HCAs[i]
	}
	for _, dev := range s.Topology.HCAs() {
		h := hcas[dev.Name]
		if h == nil {
			continue
		}
		notes := slices.Clone(h.Claims)
		if len(notes) > 1 {
			notes = []string{fmt.Sprintf("%d claims", len(notes))}
		}
		if h.Health != "" && h.Health != "Healthy" {
			notes = append(notes, h.Health)
		}
		dev.Note = strings.Join(notes, ", ")
	}
}
