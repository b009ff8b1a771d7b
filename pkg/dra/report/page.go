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
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/explain"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/statuspage"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// Inputs are the data of the status page and of a scrape.
type Inputs struct {
	Node, Version string
	Started, Now  time.Time
	View          node.View
	// Pods are the kubelet's pods with their claims. If the kubelet does not answer, Pods is nil and NoPods is the
	// reason.
	Pods   podresources.Claims
	NoPods error
	// Decision is what is published or will be published. Published are the devices that the API server has now.
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
	// Refused means that the configuration file is not used as it is now.
	Refused bool
	// Problems are the problems that concern more than one HCA.
	Problems []error
	Troubles *apiclient.Troubles
	// Blocks are the node's blocks of addresses.
	Blocks []blocks.Usage
	// Events are the recent events of the node, the newest first.
	Events []statuspage.Event
	// Cgroups is the host's cgroup file system.
	Cgroups fs.FS
}

// Page returns the status page. It reads the positions of the host's PCI devices.
func Page(in Inputs) *statuspage.Page {
	p := &statuspage.Page{
		Node: in.Node, Version: in.Version, Started: in.Started, At: in.Now,
		Registered: in.Registered, NRI: in.nri(), Problems: in.problems(),
		Topology: topology.Discover(in.View.Sys, in.View.Snapshot),
		Groups:   []explain.Group{}, Blocks: in.Blocks, Events: in.Events,
	}
	p.HCAs = in.hcas()
	for _, g := range in.Decision.Groups {
		published := in.Published[devicename.Group(g.Group.Name)] != nil
		p.Groups = append(p.Groups, explain.NewGroup(g, published))
	}
	p.Claims = pageClaims(in.View, in.Pods)
	drawState(p)
	return p
}

func (in *Inputs) nri() string {
	switch {
	case in.NRIConnected == nil:
		return ""
	case *in.NRIConnected:
		return "connected"
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
func (in *Inputs) hcas() []statuspage.HCA {
	view, holders := in.View.Health, holdersOf(in.View.Plans)
	decisions := map[string]*policy.Decision{}
	for i := range in.Decision.Decisions {
		decisions[in.Decision.Decisions[i].HCA.Name] = &in.Decision.Decisions[i]
	}
	out := []statuspage.HCA{}
	for _, h := range in.View.With(in.View.Absent()...).HCAs {
		one := pageHCA(&h, in.View.Leaves)
		if verdict, judged := view.Verdict(h.Name); judged {
			status, _ := view.Report(h.Name, in.Now)
			one.Health, one.Fault = string(status), verdict.Message()
			one.Conditions = in.conditions(verdict)
			history := view.History(h.Name)
			one.History = history.Summary()
			for _, c := range history.Recent {
				one.Recent = append(one.Recent, statuspage.Change{At: c.Last, Text: c.String()})
			}
		}
		for _, t := range in.Taints[h.Name] {
			one.Taints = append(one.Taints, t.Key+":"+string(t.Effect))
		}
		if decision := decisions[h.Name]; decision != nil {
			one.Reason = decision.Reason
			for _, name := range []string{h.Name, devicename.Shared(h.Name)} {
				if in.Published[name] != nil {
					one.Devices = append(one.Devices, name)
				}
			}
		}
		one.Claims = append(one.Claims, holders[h.Name]...)
		out = append(out, one)
	}
	return out
}

// conditions describes the conditions that hold for an HCA. An HCA that a claim holds and that is gone is sick.
func (in *Inputs) conditions(v health.Verdict) (out []statuspage.Condition) {
	for _, f := range v.Faults {
		sick := f.Condition.Sick() || f.Condition == health.DeviceGone || f.Condition == health.DriverUnbound
		unused := v.Unused && f.Condition == health.PortDown
		out = append(out, statuspage.Condition{
			Condition: string(f.Condition), Since: f.Since, Message: f.Message,
			Sick: sick && !unused && in.Effect(f.Condition) != health.EffectOff,
		})
	}
	return out
}

// pageLeaf describes the switch of a port, nil if there is nothing to say of it.
func pageLeaf(s leaf.State) *statuspage.Leaf {
	if s.Leaf == "" && s.Why == "" {
		return nil
	}
	out := &statuspage.Leaf{Switch: s.Leaf, Port: s.Link.Port, Fabric: s.Fabric, Reason: s.Why}
	if s.Leaf != "" {
		out.Source, out.Since, out.Seen = string(s.Source), &s.Since, &s.Seen
	}
	if s.Planned.Leaf != "" {
		out.Planned = s.Planned.String()
	}
	return out
}

func pageHCA(h *rdma.HCA, leaves *leaf.View) statuspage.HCA {
	out := statuspage.HCA{
		Name: h.Name, IBDev: h.IBDev, Function: string(h.Function), Protocol: string(h.Protocol), Model: h.Model, Firmware: h.Firmware,
		Ports: []statuspage.Port{}, Devices: []string{}, Claims: []string{},
	}
	if h.PCI != nil {
		out.PCI, out.NUMANode = h.PCI.Address, h.DataFunction().NUMANode
	}
	for p := range h.OwnPorts() {
		port := statuspage.Port{
			Number: p.Number, State: string(p.State), Netdev: p.Netdev, Leaf: pageLeaf(leaves.Port(h.Name, p.Number)),
		}
		if p.State == rdma.PortActive {
			port.RateMbps = p.RateMbps
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

func pageClaims(view node.View, pods podresources.Claims) []statuspage.Claim {
	out := []statuspage.Claim{}
	for _, p := range view.Plans {
		claim := statuspage.Claim{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Devices: []statuspage.Device{}, Pods: []string{}}
		for _, dev := range p.Devices {
			one := statuspage.Device{Request: dev.Request, Device: dev.Device, AdminAccess: dev.AdminAccess}
			if dev.ShareID != nil {
				one.ShareID = string(*dev.ShareID)
			}
			for _, name := range dev.HCAs() {
				if h := view.Lookup(name); h != nil {
					name = h.IBDev
				}
				one.HCAs = append(one.HCAs, name)
			}
			claim.Devices = append(claim.Devices, one)
		}
		for _, pod := range pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] {
			claim.Pods = append(claim.Pods, pod.Name)
		}
		out = append(out, claim)
	}
	slices.SortFunc(out, func(a, b statuspage.Claim) int {
		return slices.Compare([]string{a.Namespace, a.Name, a.UID}, []string{b.Namespace, b.Name, b.UID})
	})
	return out
}

// drawState adds to the picture of the host which claims have an HCA, and that an HCA is not healthy.
func drawState(p *statuspage.Page) {
	hcas := map[string]*statuspage.HCA{}
	for i := range p.HCAs {
		hcas[p.HCAs[i].IBDev] = &p.HCAs[i]
	}
	for _, dev := range p.Topology.HCAs() {
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
