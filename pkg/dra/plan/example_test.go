package plan_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func ExampleNew() {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nic", UID: "11111111-2222-3333-4444-555555555555"},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "hca", Driver: rdma.Domain, Pool: "node1", Device: "pci-0000-3b-00-0"},
			}},
		}},
	}
	p, err := plan.New(claim, plan.Facts{Pool: "node1", Site: plan.DefaultSite()})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range p.Devices {
		fmt.Println(p.CDIDevice(d))
		fmt.Println(d.Settings.Memlock, d.Settings.Nodes)
	}
	// Output:
	// rdma.dev/claim=pci-0000-3b-00-0.hca.11111111-2222-3333-4444-555555555555
	// unlimited [verbs cm]
}
