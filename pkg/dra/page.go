package dra

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/podresources"
	"github.com/rdma-dev/dra-driver-rdma/internal/version"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/statuspage"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// Status returns what the driver knows of its node now. It reads where the host's PCI devices
// sit, and asks the kubelet for its pods.
func (d *Driver) Status(ctx context.Context) *statuspage.Page {
	snap, plans := d.host.snapshot(), d.plans(ctx)
	pods, err := d.pods.Claims(ctx)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Status has no pods", "reason", err.Error())
	}
	p := &statuspage.Page{
		Node: d.cfg.NodeName, Version: version.String("dra-driver"), Started: d.started, At: d.now(),
		Registered: d.isUp.Load(), NRI: d.nriState(), Problems: d.problems(snap, err), Topology: topology.Discover(d.host.sys, snap),
		Groups: []statuspage.Group{}, Events: d.recorder.History(),
	}
	decided := d.latest(ctx)
	p.HCAs = d.hcas(snap, decided, plans)
	for _, g := range decided.Groups {
		group := statuspage.Group{Name: g.Group.Name, Published: g.Published, Reason: g.Reason, Members: []string{}}
		for _, h := range g.Group.Members {
			group.Members = append(group.Members, h.Name)
		}
		p.Groups = append(p.Groups, group)
	}
	p.Claims = pageClaims(snap, plans, pods)
	drawState(p)
	return p
}

// problems are what is wrong with more than one HCA.
func (d *Driver) problems(snap *rdma.Snapshot, noPods error) []string {
	out := []string{}
	if err := d.withheld.get(); err != nil {
		out = append(out, "no RDMA device is published: "+err.Error())
	}
	if snap.NetnsMode == rdma.NetnsExclusive && d.cfg.Mover == nil {
		out = append(out, errExclusive.Error())
	}
	if err := d.nriTrouble(); err != nil {
		out = append(out, err.Error())
	}
	if noPods != nil {
		out = append(out, "which pods use a claim is not known: "+noPods.Error())
	}
	for _, trouble := range d.cfg.Troubles.Current() {
		out = append(out, "trouble with the API server: "+trouble.String())
	}
	for _, p := range snap.Problems {
		out = append(out, p.Error())
	}
	return out
}

// hcas describes the HCAs that are there, and those that claims hold though they are gone.
func (d *Driver) hcas(snap *rdma.Snapshot, decided *decision, plans []*plan.Plan) []statuspage.HCA {
	view, _ := d.health.latest()
	taints, holders := d.taints(), holdersOf(plans)
	decisions := map[string]*policy.Decision{}
	for i := range decided.Decisions {
		decisions[decided.Decisions[i].HCA.Name] = &decided.Decisions[i]
	}
	out := []statuspage.HCA{}
	for _, h := range d.withHeld(snap, heldHCAs(plans)).HCAs {
		one := pageHCA(&h)
		if verdict, judged := view.Verdict(h.Name); judged {
			status, _ := view.Report(h.Name, d.now())
			one.Health, one.Fault = string(status), verdict.Message()
		}
		for _, t := range taints[h.Name] {
			one.Taints = append(one.Taints, t.Key+":"+string(t.Effect))
		}
		if decision := decisions[h.Name]; decision != nil {
			one.Reason = decision.Reason
			if decision.View.Exclusive() {
				one.Devices = append(one.Devices, h.Name)
			}
			if decision.View.Shared() {
				one.Devices = append(one.Devices, devicename.Shared(h.Name))
			}
		}
		one.Claims = append(one.Claims, holders[h.Name]...)
		out = append(out, one)
	}
	return out
}

// withHeld returns a snapshot that has the named HCAs too, as they last were.
func (d *Driver) withHeld(snap *rdma.Snapshot, names []string) *rdma.Snapshot {
	var gone []rdma.HCA
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if h, ok := d.host.known(name); ok && snap.Lookup(name) == nil {
			gone = append(gone, h)
		}
	}
	return snap.With(gone...)
}

func pageHCA(h *rdma.HCA) statuspage.HCA {
	out := statuspage.HCA{
		Name: h.Name, IBDev: h.IBDev, Function: string(h.Function), Protocol: string(h.Protocol), Model: h.Model, Firmware: h.Firmware,
		Ports: []statuspage.Port{}, Devices: []string{}, Claims: []string{},
	}
	if h.PCI != nil {
		out.PCI, out.NUMANode = h.PCI.Address, h.PCI.NUMANode
	}
	for p := range h.OwnPorts() {
		port := statuspage.Port{Number: p.Number, State: string(p.State), Netdev: p.Netdev}
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

func pageClaims(snap *rdma.Snapshot, plans []*plan.Plan, pods podresources.Claims) []statuspage.Claim {
	out := []statuspage.Claim{}
	for _, p := range plans {
		claim := statuspage.Claim{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Devices: []statuspage.Device{}, Pods: []string{}}
		for _, dev := range p.Devices {
			one := statuspage.Device{Request: dev.Request, Device: dev.Device, AdminAccess: dev.AdminAccess}
			if dev.ShareID != nil {
				one.ShareID = string(*dev.ShareID)
			}
			for _, name := range dev.HCAs() {
				if h := snap.Lookup(name); h != nil {
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

// drawState notes in the picture of the host who has an HCA, and that it is not well.
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
		switch n := len(h.Claims); {
		case n == 1:
			dev.Note = h.Claims[0]
		case n > 1:
			dev.Note = fmt.Sprintf("%d claims", n)
		}
		if h.Health != "" && h.Health != "Healthy" {
			dev.Note = joined(dev.Note, h.Health)
		}
	}
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}
