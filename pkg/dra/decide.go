package dra

import (
	"context"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/claimstore"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// decision is what is published: the policy applied to the host, and to what
// claims hold of it.
type decision struct {
	policy.Result
	devices  map[string][]*rdma.HCA // the published devices, with their HCAs
	deviates bool                   // something is not published as the policy says, perhaps because of a claim
}

// decide applies the policy in force. Plans come from the records of claims, so they survive a restart. Taints are by
// HCA.
func (d *Driver) decide(snap *rdma.Snapshot, plans []*plan.Plan, taints map[string][]resourceapi.DeviceTaint) *decision {
	state := held(plans)
	state.NoCounters, state.NoConsumable = d.missing.has(gateCounters), d.missing.has(gateConsumable)
	state.NoTaints, state.Taints = d.missing.has(gateTaints), taints
	state.Fixed = d.host.fixedHCAs(snap)
	return newDecision(d.policy.Load().Apply(snap, state))
}

func newDecision(r policy.Result) *decision {
	out := &decision{Result: r, devices: map[string][]*rdma.HCA{}}
	for _, one := range r.Decisions {
		if one.View.Exclusive() {
			out.devices[one.HCA.Name] = []*rdma.HCA{one.HCA}
		}
		if one.View.Shared() {
			out.devices[devicename.Shared(one.HCA.Name)] = []*rdma.HCA{one.HCA}
		}
		asWanted := one.View == one.Wanted || one.HCA.Unusable() != nil
		out.deviates = out.deviates || one.Offer.Draining || one.Offer.Unlocked || !asWanted
	}
	for _, g := range r.Groups {
		if g.Published {
			out.devices[devicename.Group(g.Group.Name)] = g.Group.Members
		}
		out.deviates = out.deviates || g.Group.Draining || len(g.Group.Former) > 0
	}
	return out
}

// held returns the views in which claims hold HCAs, and the groups that they hold. Access for monitoring holds nothing.
func held(plans []*plan.Plan) policy.State {
	state := policy.State{Held: map[string]policy.Held{}, HeldGroups: map[string][]string{}}
	for _, p := range plans {
		for _, dev := range p.Devices {
			name := devicename.Parse(dev.Device)
			switch {
			case dev.AdminAccess:
			case name.Group != "":
				members := append(state.HeldGroups[name.Group], dev.Members...)
				slices.Sort(members)
				state.HeldGroups[name.Group] = slices.Compact(members)
			default:
				h := state.Held[name.HCA]
				h.Shared = h.Shared || name.Shared
				h.Exclusive = h.Exclusive || !name.Shared
				state.Held[name.HCA] = h
			}
		}
	}
	return state
}

// plans returns the plans of prepared claims.
func (d *Driver) plans(ctx context.Context) []*plan.Plan {
	plans, err := d.claims.List()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some records of claims are not read")
	}
	return plans
}

// heldHCAs lists the HCAs of claims.
func heldHCAs(plans []*plan.Plan) []string {
	var names []string
	for _, p := range plans {
		names = append(names, p.HCAs()...)
	}
	return names
}

// node returns what a new plan needs of this node.
func (d *Driver) node(ctx context.Context) plan.Node {
	node := plan.Node{
		Pool: d.cfg.NodeName, Site: siteOf(d.cfg.Site, d.policy.Load()),
		FilesDir: claimstore.MetadataDir(d.cfg.StateDir),
		Members:  func(group string) ([]string, error) { return d.members(ctx, group), nil },
		Networks: d.networks(ctx),
	}
	if d.cfg.DeviceMetadata {
		node.MetadataDir = node.FilesDir
	}
	if d.policy.Load().Partitioning() {
		node.Card = d.host.heads
	}
	return node
}

// members returns the names of the HCAs of a group that is published, nil for any
// other.
func (d *Driver) members(ctx context.Context, group string) []string {
	var names []string
	for _, h := range d.latest(ctx).devices[devicename.Group(group)] {
		names = append(names, h.Name)
	}
	return names
}

// latest returns what is published. Before the first publication it returns what will be published: the kubelet may be
// faster than the API server.
func (d *Driver) latest(ctx context.Context) *decision {
	if published := d.published.Load(); published != nil {
		return published
	}
	return d.decide(d.host.snapshot(), d.plans(ctx), d.taints())
}

// preparedNow makes the publisher look at a claim if some of its devices are no longer published that way: the policy
// has changed since they were allocated.
func (d *Driver) preparedNow(p *plan.Plan) {
	published := d.published.Load()
	if published == nil {
		return
	}
	for _, dev := range p.Devices {
		if _, ok := published.devices[dev.Device]; !ok {
			notify(d.moved)
			return
		}
	}
}

// endedNow makes the publisher run after the end of a claim, if a claim may be the reason why something is not
// published as the policy says.
func (d *Driver) endedNow() {
	if published := d.published.Load(); published != nil && published.deviates || d.allocated.away.Load() {
		notify(d.moved)
	}
}
