package policy_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// leafHost has a card on rail 0 with a VF, and one on rail 1.
func leafHost() *rdma.Snapshot {
	card := func(name, address string) rdma.HCA {
		return rdma.HCA{
			Name: name, IBDev: name, Function: rdma.PF, Protocol: rdma.ProtocolRoCE, Uverbs: &rdma.Node{},
			PCI: &rdma.PCIFunction{Address: address}, Identity: rdma.Identity{PCI: address},
		}
	}
	vf := card("vf", "0000:18:00.1")
	vf.Function, vf.PF = rdma.VF, "0000:18:00.0"
	return &rdma.Snapshot{HCAs: []rdma.HCA{card("a", "0000:18:00.0"), vf, card("b", "0000:3b:00.0")}}
}

// TestLeafSwitch: HCAs have the attribute if the policy names a source, unless a rule sets it. The label is the leaf of
// the cards of one rail, if they agree.
func TestLeafSwitch(t *testing.T) {
	rails := "rules:\n- {name: all, rails: 2}\n"
	for name, tc := range map[string]struct {
		file   string
		leaves map[string]string
		want   string // of a, vf and b
		label  string
	}{
		"no source": {rails, map[string]string{"a": "leaf-1"}, "  ", ""},
		"a source":  {"leafFrom: [networkd]\n", map[string]string{"a": "leaf-1", "vf": "leaf-1"}, "leaf-1 leaf-1 ", ""},
		"a rule's": {
			"leafFrom: [networkd]\nrules:\n- {name: all, attributes: {leafSwitch: {string: own}}}\n",
			map[string]string{"a": "leaf-1"}, "own own own", "",
		},
		"a label": {
			"leafFrom: [table]\nleafLabelRail: 0\n" + rails, map[string]string{"a": "leaf-1", "vf": "other", "b": "leaf-2"},
			"leaf-1 other leaf-2", "leaf-1",
		},
		"no leaf on the rail": {
			"leafFrom: [table]\nleafLabelRail: 0\n" + rails, map[string]string{"b": "leaf-2"}, "  leaf-2", "",
		},
		"no such rail": {
			"leafFrom: [table]\nleafLabelRail: 7\n" + rails, map[string]string{"a": "leaf-1"}, "leaf-1  ", "",
		},
		"a rail that disagrees": {
			"leafFrom: [table]\nleafLabelRail: 0\nrules:\n- {name: all, rail: 0}\n",
			map[string]string{"a": "leaf-1", "b": "leaf-2"}, "leaf-1  leaf-2", "",
		},
	} {
		c := parse(t, tc.file)
		r := c.Apply(leafHost(), policy.State{Leaves: tc.leaves})
		var got []string
		for _, d := range r.Decisions {
			value := ""
			if s := d.Offer.Attributes[rdma.AttributeLeafSwitch].StringValue; s != nil {
				value = *s
			}
			got = append(got, value)
		}
		test.True(t, strings.Join(got, " ") == tc.want && c.LeafLabel(r) == tc.label,
			test.Sprintf("%s: leaves %q and label %q, want %q and %q", name, got, c.LeafLabel(r), tc.want, tc.label))
	}
}

// TestLeafFromErrors: a source that is unknown or named twice, and a leaf switch that is no string, are errors.
func TestLeafFromErrors(t *testing.T) {
}
