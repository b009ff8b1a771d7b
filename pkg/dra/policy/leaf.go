package policy

import (
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/leaf"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// leafFrom validates the sources of leaf switches.
func (p *problems) leafFrom(names []string) (out []leaf.Source) {
	for i, name := range names {
		source := leaf.Source(name)
		switch {
		case !slices.Contains(leaf.Sources(), source):
			p.add(element("leafFrom", i), "want one of %v, not %q", leaf.Sources(), name)
		case slices.Contains(out, source):
			p.add(element("leafFrom", i), "%s is in the list already", name)
		}
		out = append(out, source)
	}
	return out
}

// LeafFrom returns the sources of leaf switches, in order.
func (c *Config) LeafFrom() []leaf.Source { return slices.Clone(c.leafFrom) }

// LeafLabel returns the leaf switch of the node for its label: that of the HCAs of the rail that the file names, if
// they agree. It returns "" for none, and without such a rail.
func (c *Config) LeafLabel(r Result) string {
	if c.labelRail == nil {
		return ""
	}
	var found []string
	for _, d := range r.Decisions {
		rail := d.Offer.Attributes[rdma.AttributeRail].IntValue
		if rail == nil || *rail != *c.labelRail || !leaf.IsPhysical(d.HCA) {
			continue
		}
		name := ""
		if value := d.Offer.Attributes[rdma.AttributeLeafSwitch].StringValue; value != nil {
			name = *value
		}
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// setLeaf adds the leaf switch of an HCA. One that the rule names wins.
func (a *application) setLeaf(d *Decision) {
	name := a.state.Leaves[d.HCA.Name]
	if _, set := d.Offer.Attributes[rdma.AttributeLeafSwitch]; set || name == "" || len(a.config.leafFrom) == 0 {
		return
	}
	if d.Offer.Attributes == nil {
		d.Offer.Attributes = attributes{}
	}
	d.Offer.Attributes[rdma.AttributeLeafSwitch] = stringAttribute(name)
}
