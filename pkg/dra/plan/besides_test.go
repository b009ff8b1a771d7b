package plan_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

const besidesAllowed = `"allow": {"network": {"modes": ["move", "macvlan", "ipvlan"]}}`

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
		"one kind":               {a: first, b: second, aNet: `{"mode": "ipvlan"}`, bNet: `{"mode": "ipvlan"}`},
		"macvlans":               {a: first, b: second, aNet: `{"mode": "macvlan"}`, bNet: `{"mode": "macvlan"}`},
		"a kind, and none":       {a: first, b: second, aNet: `{"mode": "ipvlan"}`, bNet: `{"mode": "none"}`},
		"two kinds":              {first, second, `{"mode": "macvlan"}`, `{"mode": "ipvlan"}`, "macvlan and ipvlan", "use network.mode ipvlan"},
		"two kinds, two HCAs":    {a: first, b: elsewhere, aNet: `{"mode": "macvlan"}`, bNet: `{"mode": "ipvlan"}`},
		"two kinds, monitoring":  {a: first, b: monitor, aNet: `{"mode": "macvlan"}`, bNet: `{"mode": "ipvlan"}`},
		"two kinds, whole group": {a: share(result("nics", "group-all"), "s1"), b: second, aNet: `{"mode": "none"}`, bNet: `{"mode": "ipvlan"}`},
	} {
		node := attaching()
		node.Groups = groups
		made := func(net string, r resourceapi.DeviceRequestAllocationResult) *plan.Plan {
			p, err := plan.New(claim(one(r), fromClass(besidesAllowed), fromClaim(`"network": `+net)), node)
			if err != nil {
				t.Fatal(name, err)
			}
			return p
		}
		a, b := made(tc.aNet, tc.a), made(tc.bNet, tc.b)
		b.UID, b.Name = uid2, "other"
		err := a.Overlap(b)
		if tc.says == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), tc.remedy) ||
			!strings.Contains(err.Error(), b.Claim()) || b.Overlap(a) == nil || !meet(a, b)) {
			t.Errorf("%s: %v, the other way %v, locks %v and %v", name, err, b.Overlap(a), a.Locks(), b.Locks())
		}
		in := tc.b
		in.Request = "second"
		c := claim([]resourceapi.DeviceRequestAllocationResult{tc.a, in}, fromClass(besidesAllowed),
			fromClaim(`"network": `+tc.aNet, tc.a.Request), fromClaim(`"network": `+tc.bNet, "second"))
		if _, err := plan.New(c, node); (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s, in one claim: %v", name, err)
		}
	}
}
