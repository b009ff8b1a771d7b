package policy

import (
	"fmt"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// findUnapplied fills Unapplied. A file for nodes of several kinds has rules for the others. So a rule that matches no
// HCA is no mistake while another one gives rails here.
func (a *application) findUnapplied(cards numbers) {
	var wantsRail, wantsIPAM bool
	for _, r := range a.config.rules {
		wantsRail = wantsRail || r.rail != nil || r.rails > 0
		wantsIPAM = wantsIPAM || len(r.namesIPAM()) > 0
		if n := len(cards[r]); n > 0 && n != int(r.rails) {
			a.result.Unapplied = append(a.result.Unapplied,
				fmt.Sprintf("rule %s numbers %d cards, and it matches %d", r.name, r.rails, n))
		}
	}
	if len(a.result.Unapplied) > 0 {
		return // the rest follows from it
	}
	hasRail := func(d Decision) bool { _, ok := d.Offer.Attributes[rdma.AttributeRail]; return ok }
	if wantsRail && !slices.ContainsFunc(a.result.Decisions, hasRail) {
		a.result.Unapplied = append(a.result.Unapplied, "no rule with rail or rails matches an HCA of this host")
	}
	if wantsIPAM && !slices.ContainsFunc(a.result.Decisions, func(d Decision) bool { return d.IPAM != "" }) {
		a.result.Unapplied = append(a.result.Unapplied, "no rule with ipam or railIPAM matches an HCA of this host")
	}
}
