// Command member makes the virtual machine a node of a cluster with several nodes. Its argument is a member.Config.
package main

import (
	"fmt"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside/member"
)

func main() {
	cluster.Init() // process 1 of the cluster is this program, started again
	if os.Getenv("DRA_RDMA_VM") == "" || len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "member: this runs in a virtual machine, with its configuration as the only argument")
		os.Exit(2)
	}
	if err := member.Main(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}
