package plan_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// members resolves the groups of the tests.
func members(group string) ([]string, error) {
	return map[string][]string{
		"all":   {"pci-0000-3b-00-1", "pci-0000-3b-00-0"},
		"other": {"pci-0000-c1-00-0"},
	}[group], nil
}

// grouped makes a plan on a node with groups.
func grouped(t testing.TB, c *resourceapi.ResourceClaim) *plan.Plan {
	t.Helper()
	node := here
	node.Members = members
	p, err := plan.New(c, node)
	if err != nil {
		t.Fatal(err)
	}
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
				if got := err != nil; got != tc.want {
					t.Errorf("overlap of %s with %s: %v", pair[0].Name, pair[1].Name, err)
				}
				if tc.want && (!strings.Contains(err.Error(), pair[0].Devices[0].Device) || !strings.Contains(err.Error(), pair[1].Claim())) {
					t.Errorf("error names neither device nor claim: %v", err)
				}
			}
			if err := a.Overlap(a); err != nil {
				t.Errorf("a claim overlaps itself: %v", err)
			}
		})
	}
}

// One device among several is enough.
func TestOverlapOfSeveralDevices(t *testing.T) {
	a := newPlan(t, claim([]resourceapi.DeviceRequestAllocationResult{result("x", "d1"), result("y", "d2")}))
	b := newPlan(t, claim([]resourceapi.DeviceRequestAllocationResult{result("x", "d3"), result("y", "shared-d2")}))
	b.UID = uid2
	if a.Overlap(b) == nil {
		t.Error("two claims on HCA d2 do not overlap")
	}
}
