package policy

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// State is what a node has besides its HCAs: the claims on it, and an API server
// with or without optional features.
type State struct {
	// Held are the views in which claims hold HCAs, by the HCA's name. A view stays published until the last claim that
	// holds it ends, whatever the policy says now. Access for monitoring holds nothing.
	Held map[string]Held
	// HeldGroups are the groups that claims hold, with the names of all HCAs that
	// these claims were given.
	HeldGroups map[string][]string
	// Taints are what the health of HCAs asks for, by the HCA's name, sorted by key.
	Taints map[string][]resourceapi.DeviceTaint
	// Fixed says on a host in exclusive network namespace mode why an HCA cannot follow a
	// pod, by the HCA's name, "" if it can; nil if nobody would move it.
	Fixed map[string]string
	// NoCounters, NoConsumable and NoTaints say that the API server drops the fields of
	// KEP-4815, KEP-5075 and KEP-5055, or refuses them.
	NoCounters, NoConsumable, NoTaints bool
}

// Held says in which views claims hold an HCA by itself, not as a member of a group.
type Held struct {
	Exclusive, Shared bool
}

// view is the view that has what is held.
func (h Held) view() resources.View {
	switch {
	case h.Exclusive && h.Shared:
		return resources.ViewBoth
	case h.Exclusive:
		return resources.ViewExclusive
	case h.Shared:
		return resources.ViewShared
	}
	return resources.ViewNone
}

// Decision is what the policy says of one HCA.
type Decision struct {
	HCA *rdma.HCA
	// Rule is the name of the rule that matched, or whose selectors failed; "" if
	// there is none.
	Rule string
	// Wanted is the view that the policy asks for, and View the one that is
	// published.
	Wanted, View resources.View
	// Reason says why the HCA is not published, or not as the policy asks; "" if it
	// is.
	Reason string
	// Offer is what is published of the HCA, with View as its view.
	Offer resources.Offer

	rule *rule
}

// GroupDecision is what the policy says of one group.
type GroupDecision struct {
	Group resources.Group
	// Published is whether the group is in the pool.
	Published bool
	// Reason says why it is not, or not as the policy has it.
	Reason string
}

// Result is a policy applied to a host.
type Result struct {
	// Decisions has one entry for each HCA of the snapshot, usable or not, in order.
	Decisions []Decision
	// Groups has one entry for each group of the policy, and then for each other
	// group that claims hold.
	Groups []GroupDecision
	// NetnsMode is that of the snapshot.
	NetnsMode rdma.NetnsMode
	// Options are the features that the slices use.
	Options resources.Options
}

// Offers returns what is published of HCAs.
func (r Result) Offers() []resources.Offer {
	var out []resources.Offer
	for _, d := range r.Decisions {
		if d.View != resources.ViewNone {
			out = append(out, d.Offer)
		}
	}
	return out
}

// PublishedGroups returns the groups that are published.
func (r Result) PublishedGroups() []resources.Group {
	var out []resources.Group
	for _, g := range r.Groups {
		if g.Published {
			out = append(out, g.Group)
		}
	}
	return out
}

// Group returns the published group of that name, for whoever gives its members to
// a claim.
func (r Result) Group(name string) (resources.Group, bool) {
	for _, g := range r.Groups {
		if g.Published && g.Group.Name == name {
			return g.Group, true
		}
	}
	return resources.Group{}, false
}

// Slices returns what the node publishes.
func (r Result) Slices() []resourceslice.Slice {
	return resources.Slices(r.Offers(), r.PublishedGroups(), r.NetnsMode, r.Options)
}
