package policy

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// State is the state of a node besides its HCAs: its claims, and the optional features of the
// API server.
type State struct {
	// Held are the forms in which claims hold HCAs, by the HCA's name. A form stays published until its last
	// claim ends, whatever the policy says. Claims for monitoring hold nothing.
	Held map[string]Held
	// HeldGroups are the groups that claims hold, with the names of all HCAs in these
	// claims.
	HeldGroups map[string][]string
	// Taints are the taints that the health of HCAs requires, by the HCA's name, sorted by key.
	Taints map[string][]resourceapi.DeviceTaint
	// Leaves are the leaf switches of HCAs, by the HCA's name.
	Leaves map[string]string
	// Fixed is, on a host in exclusive network namespace mode, why an HCA cannot move into a
	// pod, by the HCA's name, "" if it can. It is nil if the driver moves no HCAs.
	Fixed map[string]string
	// NoCounters, NoConsumable and NoTaints say that the API server drops or rejects the fields of
	// KEP-4815, KEP-5075 and KEP-5055.
	NoCounters, NoConsumable, NoTaints bool
	// FewTaints says that a device can have no more taints than in Kubernetes 1.34.
	FewTaints bool
}

// Held says in which forms claims hold an HCA itself, not as a member of a group.
type Held struct{ Exclusive, Shared bool }

// form returns the form that includes all held ones.
func (h Held) form() resources.Form {
	switch {
	case h.Exclusive && h.Shared:
		return resources.FormBoth
	case h.Exclusive:
		return resources.FormExclusive
	case h.Shared:
		return resources.FormShared
	}
	return resources.FormNone
}

// Decision is the policy's result for one HCA.
type Decision struct {
	HCA *rdma.HCA
	// Rule is the name of the rule that matched, or of the rule whose selectors failed; "" if
	// there is none.
	Rule string
	// Wanted is the form of the policy, and Form the published one.
	Wanted, Form resources.Form
	// Reason is why the HCA is not published, or not in the wanted form; "" otherwise.
	Reason string
	// IPAM is the entry of ipam for claims that request the addresses of the HCA's rail, "" for none.
	IPAM string
	// VLAN is the VLAN of the network interfaces that pods get of the HCA, 0 for none.
	VLAN int
	// Marks are the marks of packets that the rule gives to the HCA's claims.
	Marks v1alpha1.Marks
	// Expected is what the rule expects of the HCA's link.
	Expected health.Expected
	// Offer is what is published of the HCA, with Form as its form.
	Offer resources.Offer

	rule    *rule
	foreign bool // it may be the software HCA of a pod, and its rule asks for none
}

// GroupDecision is the policy's result for one group.
type GroupDecision struct {
	Group resources.Group
	// Published is whether the group is in the pool.
	Published bool
	// Reason is why it is not, or not as in the policy.
	Reason string
}

// Result is the result of a policy on a host.
type Result struct {
	// Decisions has one entry for each HCA of the snapshot, usable or not, in order.
	Decisions []Decision
	// Groups has one entry for each group of the policy, and then for each other
	// group that claims hold.
	Groups []GroupDecision
	// Unapplied is what the policy says of rails and ipam without effect on this host, with the reasons.
	Unapplied []string
	// NetnsMode is that of the snapshot.
	NetnsMode rdma.NetnsMode
	// Options are the features that the slices use.
	Options resources.Options
}

// Offers returns what is published of HCAs.
func (r Result) Offers() []resources.Offer {
	var out []resources.Offer
	for _, d := range r.Decisions {
		if d.Form != resources.FormNone {
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

// Slices returns what the node publishes.
func (r Result) Slices() []resourceslice.Slice {
	return resources.Slices(r.Offers(), r.PublishedGroups(), r.NetnsMode, r.Options)
}

// Expected returns what the policy expects of the HCAs, by name.
func (r Result) Expected() map[string]health.Expected {
	out := make(map[string]health.Expected, len(r.Decisions))
	for _, d := range r.Decisions {
		out[d.HCA.Name] = d.Expected
	}
	return out
}
