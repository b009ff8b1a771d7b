package policy_test

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// TestUnmatched: rules without an HCA and fields that no HCA has are named, and nothing else.
func TestUnmatched(t *testing.T) {
	selector := func(expression string) string { return "selectors: [{cel: {expression: '" + expression + "'}}]" }
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"nothing": {"rules:\n- {name: all, publish: shared}\n", nil},
		"a rule that matches none": {
			"rules:\n- {name: lent, " + selector(`device.attributes["rdma.dev"].ibdev == "mlx5_99"`) + "}\n",
			[]string{"rule lent matches no HCA of this host"}},
		"a rule below": {"rules:\n- {name: all}\n- {name: rest}\n",
			[]string{"rule rest decides on no HCA of this host: rules above it match them first"}},
		"a typing error": {"rules:\n- {name: far, " + selector(`!has(device.attributes["rdma.dev"].pcieSwich)`) + "}\n",
			[]string{`rule far: no HCA of this host has attributes["rdma.dev"].pcieSwich`}},
		"other ways to name a field": {
			"groups:\n- {name: g, " + selector(`device.attributes[?"rdma.dev"].?rial.orValue(1) == 1 `+
				`|| "x" in device.attributes["rdma.dev"] || device.attributes["rdma.dev"]["color"] == "red" `+
				`|| device.attributes["resource.kubernetes.io"].?pciRoot.hasValue() `+
				`|| device.capacity["rdma.dev"].?shares.hasValue()`) + "}\n",
			[]string{`group g: no HCA of this host has attributes["rdma.dev"].rial`,
				`group g: no HCA of this host has attributes["rdma.dev"].color`,
				`group g: no HCA of this host has attributes["resource.kubernetes.io"].pciRoot`,
				`group g: no HCA of this host has capacity["rdma.dev"].shares`}},
		"what there is": {"rules:\n- {name: near, " +
			selector(`device.attributes["rdma.dev"].?ibdev.orValue("") != "" `+
				`&& has(device.attributes["resource.kubernetes.io"].pcieRoot)`) +
			"}\n", nil},
	} {
		config := parse(t, c.file)
		test.Eq(t, c.want, config.Unmatched(config.Apply(snapshot(t, "roce-sriov"), policy.State{})), test.Sprint(name))
	}
	config := parse(t, "rules:\n- {name: all}\n")
	unmatched := config.Unmatched(config.Apply(snapshot(t, "none"), policy.State{}))
	test.SliceEmpty(t, unmatched, test.Sprint("a host without HCAs"))
}
