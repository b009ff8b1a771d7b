package importrules_test

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/importrules"
)

func ExampleBan() {
	graph, err := importrules.Load("../../..", "./pkg/rdma")
	if err != nil {
		fmt.Println(err)
		return
	}
	ban := importrules.Ban{Of: []string{module + "/pkg/..."}, Imports: []string{"crypto/..."}, Why: "as an example"}
	for _, violation := range ban.Violations(graph) {
		fmt.Println(violation)
	}
	// Output: github.com/rdma-dev/dra-driver-rdma/pkg/rdma imports crypto/sha256: as an example
}
