package importrules_test

import (
	"fmt"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/importrules"
)

func ExampleRule() {
	graph, err := importrules.Load("../../..", "./pkg/rdma")
	if err != nil {
		fmt.Println(err)
		return
	}
	rule := importrules.Rule{Of: []string{module + "/pkg/..."}, Imports: []string{"crypto/..."}, Why: "as an example"}
	fmt.Println(rule.Violations(graph))
	// Output: [github.com/rdma-dev/dra-driver-rdma/pkg/rdma imports crypto/sha256: as an example] <nil>
}
