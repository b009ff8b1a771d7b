package why

import (
	"testing"

	"github.com/shoenig/test"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// TestEnds: a pod that waits for a drain and a rule is told of both.
func TestEnds(t *testing.T) {
	drain := model.Taint{Rule: "rdma-drain.node.n1", Drain: &model.Drain{Node: "n1"}}
	other := model.Taint{Rule: "site"}
	test.Eq(t, "run kubectl rdma undrain n1 after the repair and ask who made DeviceTaintRule site to remove it",
		ends([]model.Taint{drain, other, drain}))
}
