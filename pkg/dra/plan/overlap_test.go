package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// groups are the groups of the tests.
var groups = map[string][]string{
	"all":   {"pci-0000-3b-00-1", "pci-0000-3b-00-0"},
	"other": {"pci-0000-c1-00-0"},
}

// grouped makes a plan on a node with groups.
func grouped(t testing.TB, c *resourceapi.ResourceClaim) *plan.Plan {
	t.Helper()
	node := here
	node.Groups = groups
	p, err := plan.New(c, node)
	must.NoError(t, err)
	return p
}

// TestOverlap: who excludes whom on one HCA, whichever device it is used by.
func TestOverlap(t *testing.T) {
	const hca = "pci-0000-3b-00-0"
	exclusive := result("nic", hca)
	monitor := admin(result("nic", hca))
	shared := share(result("nic", "shared-"+hca), "s1")
	group := share(result("nics", "group-all"), "s1")
	for _, tc := range []struct {
		name string
		a, b resourceapi.DeviceRequestAllocationResult
		want bool
	}{
		{"exclusive, exclusive", exclusive, exclusive, true},
		{"exclusive, share", exclusive, shared, true},
		{"exclusive, group with the HCA", exclusive, group, true},
		{"exclusive, group without it", exclusive, result("nics", "group-other"), false},
		{"exclusive, admin", exclusive, monitor, false},
		{"exclusive, admin of the shared device", exclusive, admin(shared), false},
		{"exclusive, admin of a group", exclusive, admin(group), false},
		{"share, share", shared, share(result("nic", "shared-"+hca), "s2"), false},
		{"share, group", shared, group, false},
		{"share, share of another HCA", shared, share(result("nic", "shared-pci-0000-3b-00-1"), "s1"), false},
		{"share, admin", shared, monitor, false},
		{"group, the same group", group, share(result("nics", "group-all"), "s2"), false},
		{"group, another group", group, share(result("nics", "group-other"), "s2"), false},
		{"group, admin", group, monitor, false},
		{"admin, admin", monitor, monitor, false},
		{"shared devices without shares", result("nic", "shared-"+hca), result("nic", "shared-"+hca), true},
		{"one of them with a share", result("nic", "shared-"+hca), shared, false},
		{"groups without shares", result("nics", "group-all"), result("nics", "group-all"), true},
		{"shared device and group without shares", result("nic", "shared-"+hca), result("nics", "group-all"), false},
		{"another HCA", exclusive, result("nic", "pci-0000-3b-00-1"), false},
		{"another request", exclusive, result("port", hca), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := grouped(t, claim(one(tc.a))), grouped(t, claim(one(tc.b)))
			b.UID, b.Name = uid2, "other"
			for _, pair := range [][2]*plan.Plan{{a, b}, {b, a}} {
				err := pair[0].Overlap(pair[1])
				test.Eq(t, tc.want, err != nil,
					test.Sprintf("overlap of %s with %s: %v", pair[0].Name, pair[1].Name, err))
				test.True(t, !tc.want || meet(a, b),
					test.Sprintf("locks %v and %v do not meet", a.Locks(), b.Locks()))
				if tc.want && (!strings.Contains(err.Error(), pair[0].Devices[0].Device) || !strings.Contains(err.Error(), pair[1].Claim())) {
					t.Errorf("error names neither device nor claim: %v", err)
				}
			}
			test.NoError(t, a.Overlap(a), test.Sprint("a claim overlaps itself"))
		})
	}
}

// One device among several is enough.
func TestOverlapOfSeveralDevices(t *testing.T) {
	a := newPlan(t, claim([]resourceapi.DeviceRequestAllocationResult{result("x", "d1"), result("y", "d2")}))
	b := newPlan(t, claim([]resourceapi.DeviceRequestAllocationResult{result("x", "d3"), result("y", "shared-d2")}))
	b.UID = uid2
	test.Error(t, a.Overlap(b), test.Sprint("two claims on HCA d2 do not overlap"))
}

// meet reports whether two plans have a lock in common that not both share.
func meet(a, b *plan.Plan) bool {
	return slices.ContainsFunc(a.Locks(), func(x plan.Lock) bool {
		return slices.ContainsFunc(b.Locks(), func(y plan.Lock) bool { return x.HCA == y.HCA && !(x.Shared && y.Shared) })
	})
}

// TestOverlapOnACard: where the site has it so, a whole PF and its VFs exclude each other, and
// nothing else does that did not before.
func TestOverlapOnACard(t *testing.T) {
	const pf, vf, vf2 = "pci-0000-3b-00-0", "pci-0000-3b-00-2", "pci-0000-3b-00-3"
	partitioned := here
	partitioned.Groups = map[string][]string{"all": {vf, "pci-0000-c1-00-0"}}
	partitioned.Cards = map[string][]string{vf: {pf}, vf2: {pf}}
	plans := func(node plan.Facts, r resourceapi.DeviceRequestAllocationResult) *plan.Plan {
		p, err := plan.New(claim(one(r)), node)
		must.NoError(t, err)
		return p
	}
	for _, tc := range []struct {
		name string
		a, b resourceapi.DeviceRequestAllocationResult
		want bool
	}{
		{"PF, VF", result("nic", pf), result("nic", vf), true},
		{"PF, share of a VF", result("nic", pf), share(result("nic", "shared-"+vf), "s1"), true},
		{"PF, group with a VF", result("nic", pf), share(result("nics", "group-all"), "s1"), true},
		{"share of the PF, VF", share(result("nic", "shared-"+pf), "s1"), result("nic", vf), false},
		{"PF, VF for monitoring", result("nic", pf), admin(result("nic", vf)), false},
		{"PF for monitoring, VF", admin(result("nic", pf)), result("nic", vf), false},
		{"two VFs", result("nic", vf), result("nic", vf2), false},
		{"another PF, VF", result("nic", "pci-0000-3b-00-1"), result("nic", vf), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := plans(partitioned, tc.a), plans(partitioned, tc.b)
			b.UID, b.Name = uid2, "other"
			for _, pair := range [][2]*plan.Plan{{a, b}, {b, a}} {
				err := pair[0].Overlap(pair[1])
				if (err != nil) != tc.want || err != nil && !strings.Contains(err.Error(), pair[1].Claim()) {
					t.Errorf("overlap of %s with %s: %v", pair[0].Name, pair[1].Name, err)
				}
				test.True(t, err == nil || meet(a, b),
					test.Sprintf("locks %v and %v do not meet", a.Locks(), b.Locks()))
			}
			free := partitioned
			free.Cards = nil
			test.NoError(t, plans(free, tc.a).Overlap(&plan.Plan{UID: uid2, Devices: plans(free, tc.b).Devices}),
				test.Sprint("on a node that does not ask for it"))
		})
	}
}
