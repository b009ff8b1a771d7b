package resources_test

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func ExampleSlices() {
	pci := &rdma.PCIFunction{Address: "0000:3b:00.0", Root: "pci0000:3a"}
	hca := &rdma.HCA{
		Identity: rdma.Identity{PCI: pci.Address}, Name: "pci-0000-3b-00-0",
		IBDev: "mlx5_0", Function: rdma.PF, Protocol: rdma.ProtocolRoCE, PCI: pci,
		Uverbs: &rdma.Node{Kind: rdma.NodeUverbs, Name: "uverbs0"},
	}
	offers := []resources.Offer{{HCA: hca, Form: resources.FormExclusive}}
	for _, slice := range resources.Slices(offers, nil, rdma.NetnsShared, resources.Options{}) {
		for _, d := range slice.Devices {
			fmt.Println(d.Name, *d.Attributes["protocol"].StringValue, *d.Attributes["resource.kubernetes.io/pcieRoot"].StringValue)
		}
	}
	// Output: pci-0000-3b-00-0 roce pci0000:3a
}
