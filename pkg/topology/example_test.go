package topology_test

import (
	"fmt"
	"log"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// On a host, the tree is os.DirFS("/sys").
func ExampleDiscover() {
	host, err := fixture.Load("roce-sriov")
	if err != nil {
		log.Fatal(err)
	}
	sys := host.OpenFS()
	snap, err := rdma.Discover(sys)
	if err != nil {
		log.Fatal(err)
	}
	t := topology.Discover(sys, snap)
	if err := t.WriteTree(os.Stdout, topology.BoxLines); err != nil {
		log.Fatal(err)
	}
	hcas := t.HCAs()
	fmt.Printf("%s to %s: %s\n", hcas[0].Name, hcas[1].Name, topology.Between(hcas[0], hcas[1]))
	// Output:
	// NUMA node 0
	// └─ root pci0000:3a
	//    ├─ mlx5_0  0000:3b:00.0  RoCE, 100 Gb/s, ens1f0np0, 8 VFs
	//    └─ mlx5_1  0000:3b:00.1  RoCE, 100 Gb/s, ens1f1np1
	// mlx5_0 to mlx5_1: PIX
}
