package explain_test

import (
	"fmt"
	"os"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/explain"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

func ExampleNew() {
	snap := &rdma.Snapshot{HCAs: []rdma.HCA{{Name: "soft-rxe-eth0", IBDev: "rxe0", Function: rdma.Virtual}}}
	if err := explain.New(snap, policy.Default(), nil, nil).Write(os.Stdout, "table"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// IBDEV   HCA             FUNCTION   RULE   PUBLISH     PUBLISHED   HEALTH   CAPACITY   ATTRIBUTES   NOTE
	// rxe0    soft-rxe-eth0   virtual    -      exclusive   -           -        -          -            1
	//
	// 1: HCA rxe0 has no uverbs node: load the ib_uverbs module, or this is a management-only device
}
