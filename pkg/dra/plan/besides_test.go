package plan_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

const besidesAllowed = `"allow": {"network": {"modes": ["move", "macvlan", "ipvlan"], "vlans": [100, 200]}}`

// TestBesides: claims on one HCA whose interfaces cannot be on it together exclude each other, as do requests of one
// claim. Claims that exclude each other have a lock in common, so they cannot be prepared at the same moment.
func TestBesides(t *testing.T) {
	const hca = "pci-0000-3b-00-0"
	results := map[string]resourceapi.DeviceRequestAllocationResult{
		"first share":          share(result("nic", "shared-"+hca), "s1"),
		"second share":         share(result("nic", "shared-"+hca), "s2"),
		"share of another HCA": share(result("nic", "shared-pci-0000-3b-00-1"), "s1"),
		"monitoring":           admin(result("nic", hca)), "group": share(result("nics", "group-all"), "s1"),
	}
	type input struct {
		A, B       string
		ANet, BNet json.RawMessage
	}
	golden.Cases(t, "besides", func(t *testing.T, in input) string {
		node, aNet, bNet := attaching(), `"network": `+string(in.ANet), `"network": `+string(in.BNet)
		node.Groups = groups
		made := func(net string, r resourceapi.DeviceRequestAllocationResult) *plan.Plan {
			p, err := plan.New(claim(one(r), fromClass(besidesAllowed), fromClaim(net)), node)
			must.NoError(t, err)
			return p
		}
		a, b := made(aNet, results[in.A]), made(bNet, results[in.B])
		b.UID, b.Name = uid2, "other"
		apart := a.Overlap(b)
		test.Eq(t, apart == nil, b.Overlap(a) == nil, test.Sprintf("one way %v, the other %v", apart, b.Overlap(a)))
		test.True(t, apart == nil || meet(a, b), test.Sprintf("locks %v and %v", a.Locks(), b.Locks()))
		first, second := results[in.A], results[in.B]
		second.Request = "second"
		c := claim([]resourceapi.DeviceRequestAllocationResult{first, second}, fromClass(besidesAllowed),
			fromClaim(aNet, first.Request), fromClaim(bNet, "second"))
		_, together := plan.New(c, node)
		return fmt.Sprintf("two claims: %v\none claim: %v", apart, together)
	})
}

// TestVLAN: the claim's VLAN wins over that of its class, and this one over that of the node's configuration. An
// existing plan keeps its VLAN. A VLAN of the configuration is also that of claims without an interface, and of groups.
func TestVLAN(t *testing.T) {
	const hca = "pci-0000-3b-00-0"
	class := fromClass(besidesAllowed + `, "defaults": {"network": {"mode": "macvlan", "vlan": 100}}`)
	modes := fromClass(besidesAllowed + `, "defaults": {"network": {"mode": "macvlan"}}`)
	rules := inVLAN(300, hca, "pci-0000-3b-00-1")
	for name, tc := range map[string]struct {
		device  string
		configs configs
		rules   map[string]plan.HCANetwork
		want    int
	}{
		"nobody":                     {hca, configs{modes}, nil, 0},
		"rule":                       {hca, configs{modes}, rules, 300},
		"rule, no interface":         {hca, nil, rules, 300},
		"rule, another HCA":          {"pci-0000-4b-00-0", configs{modes}, rules, 0},
		"rule, group":                {"group-all", nil, rules, 300},
		"rule, group with other HCA": {"group-all", nil, inVLAN(300, hca), 0},
		"class over rule":            {hca, configs{class}, rules, 100},
		"claim over class":           {hca, configs{class, fromClaim(`"network": {"vlan": 200}`)}, rules, 200},
		"claim without interface":    {hca, configs{class, fromClaim(`"network": {"mode": "none"}`)}, nil, 100},
	} {
		node := attaching()
		node.Groups, node.Networks.HCAs = groups, tc.rules
		c := claim(one(result("nic", tc.device)), tc.configs...)
		p, err := plan.New(c, node)
		if err != nil || p.Devices[0].VLAN != tc.want {
			t.Errorf("%s: %+v, %v, want VLAN %d", name, p, err, tc.want)
			continue
		}
		now := attaching()
		now.Groups, now.Networks.HCAs = groups, inVLAN(7, hca, "pci-0000-3b-00-1", "pci-0000-4b-00-0")
		again, err := plan.New(c, now.WithPrepared(p))
		test.True(t, err == nil && again.Devices[0].VLAN == tc.want,
			test.Sprintf("%s, prepared again: %+v, %v, want VLAN %d", name, again, err, tc.want))
	}
}

// inVLAN are HCAs to which the configuration gives a VLAN.
func inVLAN(vlan int, hcas ...string) map[string]plan.HCANetwork {
	out := map[string]plan.HCANetwork{}
	for _, hca := range hcas {
		out[hca] = plan.HCANetwork{VLAN: vlan}
	}
	return out
}
