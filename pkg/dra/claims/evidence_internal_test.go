package claims

import (
	"errors"
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// TestVerdict: a record goes in one case alone; what is known to use it is said before what is not known.
func TestVerdict(t *testing.T) {
	doubt := errors.New("the kubelet is busy")
	pods, uids := []string{"team-a/job-0"}, []types.UID{"uid-a"}
	for _, tc := range []struct {
		name string
		evidence
		want usage
		says string
	}{
		{"nothing is known", evidence{}, maybeInUse, "cannot tell"},
		{"the API server has not answered", evidence{Doubt: doubt}, maybeInUse, "the kubelet is busy"},
		{"allocated", evidence{Allocation: allocationStands}, inUse, "allocated here"},
		{"allocated, and the kubelet does not answer",
			evidence{Allocation: allocationStands, Doubt: doubt}, inUse, "allocated here"},
		{"gone", evidence{Allocation: allocationGone}, over, "gone from the API server"},
		{"deallocated", evidence{Allocation: allocationEnded}, over, "not allocated any more"},
		{"elsewhere", evidence{Allocation: allocationElsewhere}, over, "an earlier allocation"},
		{"gone, and the kubelet lists a pod", evidence{Allocation: allocationGone, Listed: pods}, listed, "pod team-a/job-0"},
		{"gone, and a pod runs", evidence{Allocation: allocationGone, Running: uids}, running, "io.kubernetes.pod.uid=uid-a"},
		{"gone, and pods may run", evidence{Allocation: allocationGone, Doubt: doubt}, maybeInUse, "/run/c.json"},
		{"gone, a pod runs, and others may",
			evidence{Allocation: allocationGone, Running: uids, Doubt: doubt}, running, "uid-a"},
		{"gone, listed and runs", evidence{Allocation: allocationGone, Listed: pods, Running: uids}, listed, "job-0"},
		{"not known, and a pod runs", evidence{Running: uids, Doubt: doubt}, running, "uid-a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			test.Eq(t, tc.want, tc.usage(), test.Sprint("usage"))
			test.StrContains(t, tc.why("/run/c.json"), tc.says, test.Sprint("it"))
		})
	}
}

// TestAllocationOf: a record is of an allocation only if that has all of its devices, with the same shares.
func TestAllocationOf(t *testing.T) {
	share := types.UID("share-1")
	p := &plan.Plan{UID: "a", Devices: []plan.Device{{Pool: "node1", Device: "x"}, {Pool: "node1", Device: "shared-y", ShareID: &share}}}
	claim := func(uid types.UID, results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{}
		c.UID = uid
		if results != nil {
			c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}}
		}
		return c
	}
	result := func(driver, pool, device string, share *types.UID) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{Driver: driver, Pool: pool, Device: device, ShareID: share}
	}
	other := types.UID("share-2")
	x, y := result("rdma.dev", "node1", "x", nil), result("rdma.dev", "node1", "shared-y", &share)
	for name, tc := range map[string]struct {
		claim *resourceapi.ResourceClaim
		want  allocation
	}{
		"none":                       {nil, allocationGone},
		"another UID":                {claim("b", x, y), allocationGone},
		"no allocation":              {claim("a"), allocationEnded},
		"it":                         {claim("a", result("gpu", "node1", "x", nil), y, x), allocationStands},
		"another share":              {claim("a", x, result("rdma.dev", "node1", "shared-y", &other)), allocationElsewhere},
		"no share":                   {claim("a", x, result("rdma.dev", "node1", "shared-y", nil)), allocationElsewhere},
		"one device less":            {claim("a", x), allocationElsewhere},
		"another node":               {claim("a", result("rdma.dev", "node2", "x", nil), y), allocationElsewhere},
		"a device of another driver": {claim("a", result("gpu", "node1", "x", nil), y), allocationElsewhere},
	} {
		test.Eq(t, tc.want, allocationOf(p, tc.claim), test.Sprint(name))
	}
}
