package policy

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Unmatched says what matches nothing on a host with HCAs: rules that decide on no HCA, and fields of selectors that no
// HCA has. A file for nodes of several kinds may have both on purpose.
func (c *Config) Unmatched(r Result) (out []string) {
	if len(r.Decisions) == 0 {
		return nil
	}
	has := map[string]bool{}
	for _, d := range r.Decisions {
		for name := range resources.Attributes(d.HCA, r.NetnsMode) {
			has[string(name)] = true
		}
	}
	for _, rule := range c.rules {
		decides := func(d Decision) bool { return d.Rule == rule.name }
		matches := func(d Decision) bool {
			ok, err := rule.selectors.match(d.HCA, r.NetnsMode)
			return ok && err == nil
		}
		switch {
		case slices.ContainsFunc(r.Decisions, decides):
		case slices.ContainsFunc(r.Decisions, matches):
			out = append(out, fmt.Sprintf("rule %s decides on no HCA of this host: rules above it match them first", rule.name))
		default:
			out = append(out, fmt.Sprintf("rule %s matches no HCA of this host", rule.name))
		}
		out = append(out, rule.selectors.unmatched("rule "+rule.name, has)...)
	}
	for _, g := range c.groups {
		out = append(out, g.selectors.unmatched("group "+g.name, has)...)
	}
	return out
}

// field is a field of a device as most expressions name it: attributes["rdma.dev"].ibdev,
// attributes["rdma.dev"]["ibdev"], and the same with ? for optional ones. A call of a method ends with a parenthesis.
var field = regexp.MustCompile(
	`\.(attributes|capacity)\[\??["']([^"']+)["']\](?:\.\??(\w+)(\(?)|\[\??["']([^"']+)["']\])`)

// unmatched says which fields of selectors no HCA has. It does not see a field that an expression names in another way.
func (s selectors) unmatched(of string, has map[string]bool) (out []string) {
	for _, compiled := range s {
		for _, m := range field.FindAllStringSubmatch(compiled.Expression, -1) {
			kind, domain, name := m[1], m[2], m[3]+m[5]
			full := name
			if domain != rdma.Domain {
				full = domain + "/" + name
			}
			note := fmt.Sprintf("%s: no HCA of this host has %s[%q].%s", of, kind, domain, name)
			if m[4] == "" && !(kind == "attributes" && has[full]) && !slices.Contains(out, note) {
				out = append(out, note)
			}
		}
	}
	return out
}

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
