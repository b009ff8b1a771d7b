package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture/rdmatest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Results of other drivers are theirs.
func TestNewLeavesOtherDriversAlone(t *testing.T) {
	gpu := result("gpu", "gpu-0")
	gpu.Driver, gpu.Pool = "gpu.example.com", "elsewhere"
	p := newPlan(t, claim([]resourceapi.DeviceRequestAllocationResult{gpu, result("nic", "pci-0000-3b-00-0")}))
	test.True(t, len(p.Devices) == 1 && p.Devices[0].Device == "pci-0000-3b-00-0",
		test.Sprintf("devices are %v, want only the one of %s", p.Devices, rdma.Domain))
	_, err := plan.New(claim(one(gpu)), here)
	test.ErrorContains(t, err, "claim team-a/nics has no device of driver rdma.dev",
		test.Sprint("a claim without a device of ours"))
}

func TestNewErrors(t *testing.T) {
	unallocated := claim(nil)
	unallocated.Status.Allocation = nil
	other := result("nic", "pci-0000-3b-00-0")
	other.Pool = "node2"
	for _, tc := range []struct {
		name  string
		claim *resourceapi.ResourceClaim
		want  string
	}{
		{"not allocated", unallocated, "claim team-a/nics is not allocated"},
		{"another node's pool", claim(one(other)), "claim team-a/nics, request nic: device pci-0000-3b-00-0 is of pool node2, but this node has only pool node1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := plan.New(tc.claim, here)
			test.EqError(t, err, tc.want)
		})
	}
}

// Of several bad requests each is told.
func TestNewJoinsErrors(t *testing.T) {
	results := []resourceapi.DeviceRequestAllocationResult{result("a", "x"), result("b", "y"), result("c", "z")}
	_, err := plan.New(claim(results, fromClaim(`"nodes": ["mad"]`, "a"), fromClaim(`"memlock": "x"`, "c")), here)
	test.True(t, err != nil && strings.Contains(err.Error(), "request a: ") &&
		strings.Contains(err.Error(), "request c: ") && !strings.Contains(err.Error(), "request b"),
		test.Sprintf("error is %v, want both request a and request c", err))
}

// A plan is stored as JSON and read by the next version of the driver.
func TestPlanSurvivesJSON(t *testing.T) {
	p := newPlan(t, claim([]resourceapi.DeviceRequestAllocationResult{
		admin(result("a/b", "pci-0000-3b-00-0")), share(result("c", "pci-0000-3b-00-1"), uid2),
	}, fromClaim(`"memlock": 65536, "env": ["nccl"]`)))
	data, err := json.Marshal(p)
	must.NoError(t, err)
	var got plan.Plan
	must.NoError(t, json.Unmarshal(data, &got))
	test.Eq(t, *p, got, test.Sprint("plan after JSON"))
}

// Every combination of claim, request, device and share has a CDI name of its
// own, which any CDI version takes for a device name.
func TestCDINameIsInjective(t *testing.T) {
	shareIDs := []types.UID{"", "0f3c2d1e-7777-4444-8888-000000000001", "0f3c2d1e-7777-4444-8888-000000000002"}
	requests := []string{"a", "b", "a/b", "b/a", "a/a", "a-b", "nic-0", "0", uidRequest}
	var devices []string
	for _, machine := range []string{"roce-sriov", "mlx5-sf", "soft"} {
		for _, h := range rdmatest.Snapshot(t, machine).Usable() {
			devices = append(devices, h.Name)
		}
	}
	seen := map[string]string{}
	for _, id := range []types.UID{uid, uid2} {
		for _, device := range devices {
			for _, request := range requests {
				for _, shareID := range shareIDs {
					d := plan.Device{Request: request, Device: device}
					if shareID != "" {
						d.ShareID = &shareID
					}
					p := &plan.Plan{UID: id}
					name, what := p.CDIName(d), strings.Join([]string{string(id), device, request, string(shareID)}, " ")
					before, ok := seen[name]
					must.True(t, !ok, must.Sprintf("CDI name %q stands for both %s and %s", name, before, what))
					seen[name] = what
					must.Eq(t, "rdma.dev/claim="+name, p.CDIDevice(d), must.Sprintf("CDI device of %s", name))
					first := name[0]
					must.True(t, first >= 'a' && first <= 'z',
						must.Sprintf("CDI name %q starts with no letter, which CDI 0.3.0 refuses", name))
				}
			}
		}
	}
}

// uidRequest is a request that is named like a UID, the worst that a user can do
// to the CDI name.
const uidRequest = "4c2b1b9e-6d62-4b0c-8f0c-0b2f2f6d2a11"
