package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// group decides on the policy's groups, then on other groups that claims hold.
func (a *application) group() {
	known := map[string]bool{}
	for _, g := range a.config.groups {
		known[g.name] = true
		a.result.Groups = append(a.result.Groups, a.members(g))
	}
	for _, name := range slices.Sorted(maps.Keys(a.state.HeldGroups)) {
		if !known[name] {
			a.result.Groups = append(a.result.Groups, GroupDecision{
				Group: resources.Group{
					Name: name, Former: a.hcas(a.state.HeldGroups[name]), Shares: 1, Draining: true,
				},
				Published: true,
				Reason:    "it is no group of the policy: it stays for the claims that hold it, and no new claim gets it",
			})
		}
	}
	for i := range a.result.Groups {
		a.checkRivals(&a.result.Groups[i])
	}
	for a.counters && a.limitCounters() {
		// Each change may affect the counters of other groups.
	}
}

// members returns a group with its members. It excludes an HCA with a failed rule, an HCA on which
// the group's selectors fail, and a software HCA that may be a pod's, unless the selectors ask for software HCAs.
func (a *application) members(g *group) GroupDecision {
	d := GroupDecision{Group: resources.Group{Name: g.name, Shares: g.shares}}
	for i := range a.result.Decisions {
		h := a.result.Decisions[i]
		if !a.usable(&h) || h.ruleFailed() {
			continue
		}
		matches, err := g.selectors.match(h.HCA, a.snap.NetnsMode)
		if err != nil {
			d.note("%s is no member: %s", h.HCA.Name, err)
		} else if matches && (!h.foreign || g.selectors.askForSoftware(h.HCA, a.snap.NetnsMode)) {
			d.Group.Members = append(d.Group.Members, h.HCA)
		}
	}
	for _, h := range a.hcas(a.state.HeldGroups[g.name]) {
		if !slices.Contains(d.Group.Members, h) {
			d.Group.Former = append(d.Group.Former, h)
		}
	}
	switch {
	case a.snap.NetnsMode == rdma.NetnsExclusive:
		d.Reason = errNetns
		if a.state.Fixed != nil {
			d.Reason = errOneAtOnce
		}
		if a.holds(g.name) {
			d.Published, d.Group.Draining = true, true
			d.note("it stays for the claims that hold it")
		}
	case d.Group.Members == nil && a.holds(g.name):
		d.Published, d.Group.Draining = true, true
		d.note("it has no members any more: it stays for the claims that hold it, and no new claim gets it")
	case d.Group.Members == nil:
		d.note("it has no members")
	default:
		d.Published = true
	}
	return d
}

// ruleFailed reports whether a rule could not be evaluated.
func (d *Decision) ruleFailed() bool { return d.Rule != "" && d.rule == nil }

func (d *GroupDecision) note(format string, args ...any) {
	reason := Decision{Reason: d.Reason}
	reason.note(format, args...)
	d.Reason = reason.Reason
}

func (a *application) holds(group string) bool {
	_, held := a.state.HeldGroups[group]
	return held
}

// hcas returns the named HCAs that the host has, in order.
func (a *application) hcas(names []string) []*rdma.HCA {
	var found []int
	for _, name := range names {
		if i, ok := a.index[name]; ok && a.usable(&a.result.Decisions[i]) {
			found = append(found, i)
		}
	}
	slices.Sort(found)
	var out []*rdma.HCA
	for _, i := range slices.Compact(found) {
		out = append(out, a.result.Decisions[i].HCA)
	}
	return out
}

// withCards returns the names of the HCAs. If cards and their VFs exclude each other, it adds
// the HCAs' cards.
func (a *application) withCards(hcas []*rdma.HCA) map[string]bool {
	families, out := map[string]bool{}, map[string]bool{}
	for _, h := range hcas {
		out[h.Name] = true
		if !isCard(h) && a.config.partitioning {
			families[h.Family()] = true
		}
	}
	for i := range a.result.Decisions {
		if h := a.result.Decisions[i].HCA; isCard(h) && families[h.Family()] {
			out[h.Name] = true
		}
	}
	return out
}

// checkRivals publishes a group only if no claim can get one of its HCAs exclusively at the same time. If
// claims hold the group, it withholds the exclusive HCAs instead.
func (a *application) checkRivals(g *GroupDecision) {
	if !g.Published {
		return
	}
	var alone []string
	for _, d := range a.rivals(g.Group) {
		switch {
		case a.counters && !d.Offer.Unlocked:
		case a.holds(g.Group.Name):
			a.withholdExclusive(d, g.Group.Name)
		default:
			alone = append(alone, d.HCA.Name)
		}
	}
	if alone == nil {
		return
	}
	g.Published = false
	g.note("claims could get %s alone: publish them shared or not at all, or have counters keep them apart "+
		"(partitioning: true, and an API server with the feature gate DRAPartitionableDevices)",
		strings.Join(alone, ", "))
}

// rivals returns the HCAs of a group that are published exclusively.
func (a *application) rivals(g resources.Group) []*Decision {
	used := a.withCards(slices.Concat(g.Members, g.Former))
	var out []*Decision
	for i := range a.result.Decisions {
		if d := &a.result.Decisions[i]; used[d.HCA.Name] && d.Form.Exclusive() {
			out = append(out, d)
		}
	}
	return out
}

// withholdExclusive removes the exclusive device of an HCA from the pool, unless a claim holds it. It
// reports whether it did.
func (a *application) withholdExclusive(d *Decision, group string) bool {
	switch {
	case a.state.Held[d.HCA.Name].Exclusive:
		return false
	case d.Form == resources.FormBoth:
		d.Form = resources.FormShared
		d.note("shared only: claims of group %s use it", group)
	default:
		d.withhold("claims of group %s use it: it is published when they end", group)
	}
	return true
}

// limitCounters keeps the groups within the API's number of counters. It changes the first group above
// it, and reports whether it changed something.
func (a *application) limitCounters() bool {
	for i := range a.result.Groups {
		g := &a.result.Groups[i]
		if !g.Published {
			continue
		}
		err := resources.CheckGroup(g.Group, a.forms(), a.result.PublishedGroups())
		if err == nil {
			continue
		}
		if !a.holds(g.Group.Name) {
			g.Published = false
			g.note("%s", err)
			return true
		}
		changed := false
		for _, d := range a.rivals(g.Group) {
			changed = a.withholdExclusive(d, g.Group.Name) || changed
		}
		if changed {
			return true
		}
	}
	return false
}

// forms returns the offers, as far as they are known.
func (a *application) forms() []resources.Offer {
	var out []resources.Offer
	for _, d := range a.result.Decisions {
		out = append(out, resources.Offer{HCA: d.HCA, Form: d.Form, Unlocked: d.Offer.Unlocked})
	}
	return out
}
