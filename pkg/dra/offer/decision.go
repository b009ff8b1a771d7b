package offer

import (
	"context"
	"slices"
	"sync"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/devicename"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Decision is the policy applied to the host and to the plans of claims: what is published. It is immutable.
type Decision struct {
	policy.Result
	// Devices are the published devices with their HCAs.
	Devices map[string][]*rdma.HCA

	groups   map[string][]string        // the names of the HCAs of each published group
	networks map[string]plan.HCANetwork // by the name of the HCA
	marks    map[string]v1alpha1.Marks  // of packets, by the name of the HCA
	deviates bool                       // claims may be the reason for a deviation from the policy
	uses     func() map[string]bool     // policy.Uses of its slices, which are made once for it
}

// Decision returns what is published. Before the first publication it returns what will be published, because the
// kubelet may call before the API server answers.
func (o *Offer) Decision(ctx context.Context) *Decision {
	if published := o.last.Load(); published != nil {
		return published
	}
	return o.Try(ctx, o.Policy.inForce.Load())
}

// Try returns what the node would publish with another policy: for its claims, its health and its API server as they
// are now. It changes nothing.
func (o *Offer) Try(ctx context.Context, p *policy.Config) *Decision {
	return o.decide(p, o.cfg.Node.View(ctx))
}

// decide applies a policy. HCAs that claims hold stay published while they are missing. The plans come from the
// records of claims, so they survive a restart.
func (o *Offer) decide(p *policy.Config, view node.View) *Decision {
	snap, missing := view.Snapshot, view.Missing()
	if len(missing) > 0 {
		snap = snap.With(missing...)
	}
	if o.Withheld() != nil {
		snap = &rdma.Snapshot{}
	}
	state := held(view.Plans)
	state.Lack(o.missing.has)
	state.Taints = view.Health.Taints(o.missing.healthPolicy(p))
	state.Leaves = view.Leaves.Leaves()
	state.Fixed = o.cfg.Node.Moves.Fixed(view.Host, snap)
	decided := newDecision(p.Apply(snap, state))
	decided.deviates = decided.deviates || len(missing) > 0
	return decided
}

func newDecision(r policy.Result) *Decision {
	out := &Decision{
		Result: r, Devices: map[string][]*rdma.HCA{}, groups: map[string][]string{},
		networks: map[string]plan.HCANetwork{}, marks: map[string]v1alpha1.Marks{},
		uses: sync.OnceValue(func() map[string]bool { return policy.Uses(r.Slices()) }),
	}
	for _, one := range r.Decisions {
		if one.Form.Exclusive() {
			out.Devices[one.HCA.Name] = []*rdma.HCA{one.HCA}
		}
		if one.Form.Shared() {
			out.Devices[devicename.Shared(one.HCA.Name)] = []*rdma.HCA{one.HCA}
		}
		network := plan.HCANetwork{IPAM: one.IPAM, VLAN: one.VLAN}
		if name := one.Offer.Attributes[resources.AttributeResourceName].StringValue; name != nil {
			network.ResourceName = *name
		}
		out.networks[one.HCA.Name], out.marks[one.HCA.Name] = network, one.Marks
		asWanted := one.Form == one.Wanted || one.HCA.Unusable() != nil
		out.deviates = out.deviates || one.Offer.Draining || one.Offer.Unlocked || !asWanted
	}
	for _, g := range r.Groups {
		if g.Published {
			out.Devices[devicename.Group(g.Group.Name)] = g.Group.Members
			for _, h := range g.Group.Members {
				out.groups[g.Group.Name] = append(out.groups[g.Group.Name], h.Name)
			}
		}
		out.deviates = out.deviates || g.Group.Draining || len(g.Group.Former) > 0
	}
	return out
}

// hcasOf returns the names of the HCAs of a device, which need not be published any more.
func (d *Decision) hcasOf(device string) []string {
	name := devicename.Parse(device)
	if name.Group != "" {
		return d.groups[name.Group]
	}
	return []string{name.HCA}
}

// held returns the forms in which claims hold HCAs, and the groups that they hold. Access for monitoring holds nothing.
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
