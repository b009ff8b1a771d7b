package policy_test

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func Example() {
	c, err := policy.Parse([]byte(`
apiVersion: rdma.dev/v1alpha1
kind: DriverConfig
rules:
- name: storage
  selectors:
  - cel: {expression: 'device.attributes["rdma.dev"].protocol == "roce"'}
  publish: shared
  shares: 8
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	snap := &rdma.Snapshot{HCAs: []rdma.HCA{
		{Name: "pci-0000-18-00-0", Protocol: rdma.ProtocolIB, Uverbs: &rdma.Node{}},
		{Name: "pci-0000-29-00-0", Protocol: rdma.ProtocolRoCE, Uverbs: &rdma.Node{}},
		{Name: "pci-0000-40-00-0", Protocol: rdma.ProtocolRoCE}, // no uverbs
	}}
	result := c.Apply(snap, policy.State{})
	for _, d := range result.Decisions {
		fmt.Printf("%s %s, rule %q\n", d.HCA.Name, d.Form, d.Rule)
	}
	for _, slice := range result.Slices() {
		for _, device := range slice.Devices {
			shares := device.Capacity["shares"].Value
			fmt.Println(device.Name, shares.String())
		}
	}
	// Output:
	// pci-0000-18-00-0 exclusive, rule ""
	// pci-0000-29-00-0 shared, rule "storage"
	// pci-0000-40-00-0 none, rule "storage"
	// pci-0000-18-00-0 0
	// shared-pci-0000-29-00-0 8
}
