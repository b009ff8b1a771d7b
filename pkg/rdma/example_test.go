package rdma_test

import (
	"fmt"
	"io/fs"
	"log"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// On a host, the tree is os.DirFS("/sys").
func ExampleDiscover() {
	host, err := fixture.Load("roce-lag")
	if err != nil {
		log.Fatal(err)
	}
	var sys fs.ReadLinkFS = host.OpenFS()
	snap, err := rdma.Discover(sys)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range snap.Usable() {
		p := h.Port1()
		fmt.Printf("%s is %s: %s over %s, %d Gbit/s, %s\n", h.Name, h.IBDev, h.Protocol, p.Netdev,
			p.RateMbps/1000, h.Uverbs.Path())
	}
	for _, p := range snap.Problems {
		fmt.Fprintln(os.Stderr, p)
	}
	// Output: pci-0000-3b-00-0 is mlx5_bond_0: roce over bond0, 200 Gbit/s, /dev/infiniband/uverbs0
}

// Verify answers whether a device of an older snapshot is still where it was.
func ExampleVerify() {
	host, err := fixture.Load("roce-lag")
	if err != nil {
		log.Fatal(err)
	}
	sys := host.OpenFS()
	snap, err := rdma.Discover(sys)
	if err != nil {
		log.Fatal(err)
	}
	h := snap.Lookup("pci-0000-3b-00-0")
	fmt.Println(rdma.Verify(sys, h))

	h.Identity.PCI = "0000:af:00.0" // as if the snapshot had seen it elsewhere
	fmt.Println(rdma.Verify(sys, h))
	// Output:
	// <nil>
	// the kernel's RDMA devices have changed: HCA mlx5_bond_0 sits on "0000:3b:00.0" now, and sat on 0000:af:00.0
}
