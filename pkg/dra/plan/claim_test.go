package plan_test

import (
	"testing"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

const (
	node = "node1"
	uid  = types.UID("4c2b1b9e-6d62-4b0c-8f0c-0b2f2f6d2a11")
	uid2 = types.UID("9d1f0a53-1f7e-4f6b-9f44-6b0f3c1a7e22")
)

// here is a node whose administrator says nothing.
var here = plan.Facts{Pool: node, Site: plan.DefaultSite(), FilesDir: "/var/lib/kubelet/plugins/rdma.dev/metadata"}

// claim makes an allocated claim.
func claim(results []resourceapi.DeviceRequestAllocationResult, configs ...resourceapi.DeviceAllocationConfiguration) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "nics", UID: uid},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: results, Config: configs},
		}},
	}
}

func result(request, device string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Request: request, Driver: rdma.Domain, Pool: node, Device: device}
}

func one(r resourceapi.DeviceRequestAllocationResult) []resourceapi.DeviceRequestAllocationResult {
	return []resourceapi.DeviceRequestAllocationResult{r}
}

func admin(r resourceapi.DeviceRequestAllocationResult) resourceapi.DeviceRequestAllocationResult {
	yes := true
	r.AdminAccess = &yes
	return r
}

func share(r resourceapi.DeviceRequestAllocationResult, id types.UID) resourceapi.DeviceRequestAllocationResult {
	r.ShareID = &id
	return r
}

// consuming gives a result its part of capacities: "handles", "100", "objects", "1k".
func consuming(r resourceapi.DeviceRequestAllocationResult, pairs ...string) resourceapi.DeviceRequestAllocationResult {
	r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse("1")}
	for i := 0; i < len(pairs); i += 2 {
		r.ConsumedCapacity[resourceapi.QualifiedName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return r
}

// fromClass and fromClaim make the configurations of an allocation, for the
// requests named, or for all.
func fromClass(fields string, requests ...string) resourceapi.DeviceAllocationConfiguration {
	return config(resourceapi.AllocationConfigSourceClass, "HCAClassConfig", fields, requests)
}

func fromClaim(fields string, requests ...string) resourceapi.DeviceAllocationConfiguration {
	return config(resourceapi.AllocationConfigSourceClaim, "HCAConfig", fields, requests)
}

func config(source resourceapi.AllocationConfigSource, kind, fields string, requests []string) resourceapi.DeviceAllocationConfiguration {
	raw := `{"apiVersion": "rdma.dev/v1alpha1", "kind": "` + kind + `"`
	if fields != "" {
		raw += ", " + fields
	}
	return resourceapi.DeviceAllocationConfiguration{
		Source: source, Requests: requests,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: rdma.Domain, Parameters: runtime.RawExtension{Raw: []byte(raw + "}")},
		}},
	}
}

func newPlan(t testing.TB, c *resourceapi.ResourceClaim) *plan.Plan {
	t.Helper()
	p, err := plan.New(c, here)
	must.NoError(t, err)
	return p
}
