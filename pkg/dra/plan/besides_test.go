package plan_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

const besidesAllowed = `"allow": {"network": {"modes": ["move", "macvlan", "ipvlan"], "vlans": [100, 200]}}`

// TestBesides: claims on one HCA whose interfaces cannot be on it together exclude each other, as do requests of one
// claim. Claims that exclude each other have a lock in common, so they cannot be prepared at the same moment.
func TestBesides(t *testing.T) {
	const hca = "pci-0000-3b-00-0"
	monitor := admin(result("nic", hca))
	first, second := share(result("nic", "shared-"+hca), "s1"), share(result("nic", "shared-"+hca), "s2")
	elsewhere := share(result("nic", "shared-pci-0000-3b-00-1"), "s1")
	for name, tc := range map[string]struct {
		a, b         resourceapi.DeviceRequestAllocationResult
		aNet, bNet   string
		says, remedy string
	}{
		"one kind":         {a: first, b: second, aNet: `{"mode": "ipvlan"}`, bNet: `{"mode": "ipvlan"}`},
		"macvlans":         {a: first, b: second, aNet: `{"mode": "macvlan"}`, bNet: `{"mode": "macvlan"}`},
		"a kind, and none": {a: first, b: second, aNet: `{"mode": "ipvlan"}`, bNet: `{"mode": "none"}`},
		"two kinds": {
			first,
			second,
			`{"mode": "macvlan"}`,
			`{"mode": "ipvlan"}`,
			"macvlan and ipvlan",
			"use network.mode ipvlan",
		},
		"two kinds, two HCAs":   {a: first, b: elsewhere, aNet: `{"mode": "macvlan"}`, bNet: `{"mode": "ipvlan"}`},
		"two kinds, monitoring": {a: first, b: monitor, aNet: `{"mode": "macvlan"}`, bNet: `{"mode": "ipvlan"}`},
		"two kinds, whole group": {
			a:    share(result("nics", "group-all"), "s1"),
			b:    second,
			aNet: `{"mode": "none"}`,
			bNet: `{"mode": "ipvlan"}`,
		},
		"one VLAN": {
			a:    first,
			b:    second,
			aNet: `{"mode": "macvlan", "vlan": 100}`,
			bNet: `{"mode": "macvlan", "vlan": 100}`,
		},
		"two VLANs": {first, second, `{"mode": "macvlan", "vlan": 100}`, `{"mode": "macvlan", "vlan": 200}`, "VLAN 200",
			"use an HCA or VF that no claim of another VLAN has"},
		"a VLAN, and none": {first, second, `{"mode": "macvlan"}`, `{"mode": "macvlan", "vlan": 200}`, "no VLAN", "VLAN 200"},
		"a VLAN, and no interface": {first, second, `{"mode": "none"}`, `{"mode": "macvlan", "vlan": 200}`, "no VLAN",
			"all its addresses (GIDs)"},
		"a VLAN of both, one without an interface": {a: first, b: second, aNet: `{"mode": "none", "vlan": 200}`,
			bNet: `{"mode": "macvlan", "vlan": 200}`},
		"a VLAN, and a group": {share(result("nics", "group-all"), "s1"), second, `{"mode": "none"}`,
			`{"mode": "macvlan", "vlan": 200}`, "no VLAN", "VLAN 200"},
		"two VLANs, two HCAs": {a: first, b: elsewhere, aNet: `{"mode": "macvlan", "vlan": 100}`,
			bNet: `{"mode": "macvlan", "vlan": 200}`},
		"a VLAN, and monitoring": {a: first, b: monitor, aNet: `{"mode": "macvlan", "vlan": 100}`, bNet: `{"mode": "none"}`},
	} {
		node := attaching()
		node.Groups = groups
		made := func(net string, r resourceapi.DeviceRequestAllocationResult) *plan.Plan {
			p, err := plan.New(claim(one(r), fromClass(besidesAllowed), fromClaim(`"network": `+net)), node)
			must.NoError(t, err, must.Sprint(name))
			return p
		}
		a, b := made(tc.aNet, tc.a), made(tc.bNet, tc.b)
		b.UID, b.Name = uid2, "other"
		err := a.Overlap(b)
		test.True(t, tc.says != "" || err == nil, test.Sprintf("%s: %v", name, err))
		if tc.says != "" && (!says(err, tc.says, tc.remedy, b.Claim()) || b.Overlap(a) == nil || !meet(a, b)) {
			t.Errorf("%s: %v, the other way %v, locks %v and %v", name, err, b.Overlap(a), a.Locks(), b.Locks())
		}
		in := tc.b
		in.Request = "second"
		c := claim([]resourceapi.DeviceRequestAllocationResult{tc.a, in}, fromClass(besidesAllowed),
			fromClaim(`"network": `+tc.aNet, tc.a.Request), fromClaim(`"network": `+tc.bNet, "second"))
		_, err = plan.New(c, node)
		test.True(t, (err == nil) == (tc.says == "") && (err == nil || says(err, tc.says)),
			test.Sprintf("%s, in one claim: %v", name, err))
	}
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

// says reports whether there is an error with all texts.
func says(err error, texts ...string) bool {
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			return false
		}
	}
	return err != nil
}
