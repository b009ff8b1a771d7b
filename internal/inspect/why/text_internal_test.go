package why

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// TestRulesEnd: a pod that waits for two rules is told of both.
func TestRulesEnd(t *testing.T) {
	drain := model.Taint{Rule: "rdma-drain.node.n1", Drain: &model.Drain{Node: "n1"}}
	other := model.Taint{Rule: "site"}
	ends := rulesEnd([]model.Taint{drain, other, drain})
	test.Eq(t, "run kubectl rdma undrain n1 after the repair and remove the rule", ends)
}
