package plan_test

import (
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

const sharedNIC = "shared-pci-0000-3b-00-0"

// TestMergeLimits has a case for each cell of the table of limits in docs/claims.md.
// What is said of handles holds for objects as well.
func TestMergeLimits(t *testing.T) {
	const (
		class50  = `"defaults": {"limits": {"handles": 50, "objects": "5k"}}`
		class200 = `"defaults": {"limits": {"handles": 200, "objects": "20k"}}`
		max70    = `"allow": {"limitsMax": {"handles": 70, "objects": "7k"}}`
		wish20   = `"limits": {"handles": 20, "objects": "2k"}`
		wish60   = `"limits": {"handles": 60, "objects": "6k"}`
		wish100  = `"limits": {"handles": 100, "objects": "10k"}`
	)
	exclusive := result("nic", "pci-0000-3b-00-0")
	share100 := consuming(share(result("nic", sharedNIC), "s1"), "handles", "100", "objects", "10k")
	for _, tc := range []struct {
		name    string
		result  resourceapi.DeviceRequestAllocationResult
		configs configs
		want    int64 // handles, and 100 times as many objects
	}{
		{"nobody", exclusive, nil, 0},
		{"nobody, shared without such capacities", consuming(share(result("nic", sharedNIC), "s1")), nil, 0},
		{"class default", exclusive, configs{fromClass(class50)}, 50},
		{"class maximum", exclusive, configs{fromClass(max70)}, 70},
		{"class default below its maximum", exclusive, configs{fromClass(class50 + "," + max70)}, 50},
		{"class default above a later maximum", exclusive, configs{fromClass(class200), fromClass(max70)}, 70},
		{"claim above the class default", exclusive, configs{fromClass(class50), fromClaim(wish60)}, 60},
		{"claim within the maximum", exclusive, configs{fromClass(max70), fromClaim(wish60)}, 60},
		{"later claim config wins", exclusive, configs{fromClass(max70), fromClaim(wish60), fromClaim(wish20)}, 20},
		{"share", share100, nil, 100},
		{"share, class default below", share100, configs{fromClass(class50)}, 50},
		{"share, class default above", share100, configs{fromClass(class200)}, 100},
		{"share, class maximum below", share100, configs{fromClass(max70)}, 70},
		{"share, claim lowers", share100, configs{fromClaim(wish20)}, 20},
		{"share, claim lowers less than the class default", share100, configs{fromClass(class50), fromClaim(wish60)}, 60},
		{"share, claim wishes all of it", share100, configs{fromClaim(wish100)}, 100},
		{"share under qualified names", consuming(share(result("nic", sharedNIC), "s1"), "rdma.dev/handles", "100", "rdma.dev/objects", "10k"), nil, 100},
		{"admin", admin(exclusive), nil, 0},
		{"admin, beside shares", admin(share100), nil, 0},
		{"admin, claim above the maximum", admin(share100), configs{fromClass(max70), fromClaim(wish100)}, 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := plan.Limits{Handles: tc.want, Objects: 100 * tc.want}
			test.EqOp(t, want, newPlan(t, claim(one(tc.result), tc.configs...)).Devices[0].Limits,
				test.Sprint("limits"))
		})
	}
}

// Each of the two limits is merged by itself.
func TestMergeLimitsApart(t *testing.T) {
	r := consuming(share(result("nic", sharedNIC), "s1"), "handles", "100")
	p := newPlan(t, claim(one(r), fromClass(`"defaults": {"limits": {"objects": 7}}`), fromClaim(`"limits": {"handles": 5}`)))
	test.EqOp(t, (plan.Limits{Handles: 5, Objects: 7}), p.Devices[0].Limits, test.Sprint("limits"))
	// The kernel takes no number beyond this, and a share of more is no limit to it.
	r = consuming(share(result("nic", sharedNIC), "s1"), "objects", "8Gi")
	test.EqOp(t, (plan.Limits{Objects: 1<<31 - 1}), newPlan(t, claim(one(r))).Devices[0].Limits,
		test.Sprint("limits"))
}

func TestMergeLimitsRefuses(t *testing.T) {
	share100 := consuming(share(result("nic", sharedNIC), "s1"), "handles", "100", "objects", "10k")
	for _, tc := range []struct {
		name    string
		result  resourceapi.DeviceRequestAllocationResult
		configs configs
		want    []string
	}{
		{"more than the share", share100, configs{fromClaim(`"limits": {"handles": 101}`)}, []string{"limits.handles: 101 is more than the claim's share of the device, 100", "capacity.requests"}},
		{"more objects than the share", share100, configs{fromClaim(`"limits": {"objects": 10001}`)}, []string{"limits.objects: 10001 is more"}},
		{"more than the class allows", share100, configs{fromClass(`"allow": {"limitsMax": {"handles": 70}}`), fromClaim(`"limits": {"handles": 71}`)}, []string{"limits.handles: Forbidden: 71 is more than the DeviceClass allows", "allow.limitsMax.handles 70"}},
		{"nobody but the claim", result("nic", "pci-0000-3b-00-0"), configs{fromClaim(`"limits": {"handles": 60}`)}, []string{"limits.handles: the administrator has not opted in", "allow.limitsMax.handles"}},
		{"nobody but the claim, shared", consuming(share(result("nic", sharedNIC), "s1"), "handles", "100"), configs{fromClaim(`"limits": {"objects": 60}`)}, []string{"limits.objects: the administrator has not opted in"}},
		{"a share of nothing", consuming(share(result("nic", sharedNIC), "s1"), "handles", "0"), nil, []string{"0 handles of a shared device", "ask for at least 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := plan.New(claim(one(tc.result), tc.configs...), here)
			must.Error(t, err, must.Sprint("the plan was made"))
			for _, part := range append(tc.want, "claim team-a/nics, request nic: ") {
				test.StrContains(t, err.Error(), part, test.Sprintf("error does not say %q: %v", part, err))
			}
		})
	}
}
