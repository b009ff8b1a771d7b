package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/fixture"
)

// What cdi-gen prints on a host with one HCA.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	host, err := fixture.Load("alibaba-erdma")
	if err != nil {
		fmt.Println(err)
		return
	}
	root := filepath.Join(dir, "host")
	if err := os.Mkdir(root, 0o755); err != nil {
		fmt.Println(err)
		return
	}
	if err := host.Extract(root); err != nil {
		fmt.Println(err)
		return
	}
	run(context.Background(), []string{"generate", "--host-root", root, "--no-hook", "--names", "ibdev", "--no-all"},
		os.Stdout, os.Stderr)
	// Output:
	// ---
	// cdiVersion: 0.3.0
	// kind: rdma.dev/hca
	// devices:
	//   - name: erdma_0
	//     containerEdits:
	//       env:
	//         - RDMA_DEVICE_PCI_0000_00_07_0=erdma_0
	//       deviceNodes:
	//         - path: /dev/infiniband/uverbs0
	//           permissions: rw
	// containerEdits:
	//   deviceNodes:
	//     - path: /dev/infiniband/rdma_cm
	//       permissions: rw
}
