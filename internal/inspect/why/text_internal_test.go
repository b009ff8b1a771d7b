package why

import (
	"testing"

	"github.com/shoenig/test"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// TestTaintRemedy: a pod that waits for a drain and a rule is told of both.
func TestTaintRemedy(t *testing.T) {
	drain := model.Taint{Rule: "rdma-drain.node.n1", Drain: &model.Drain{Node: "n1"}}
	other := model.Taint{Rule: "site"}
	test.Eq(t, "run kubectl rdma undrain n1 after the repair; ask the author of DeviceTaintRule site to remove it; "+
		"or tolerate the taints in the request", taintRemedy([]model.Taint{drain, other, drain}))
	test.Eq(t, "have the policy of the driver offer the device again, or tolerate the taint in the request",
		taintRemedy([]model.Taint{{DeviceTaint: &resourceapi.DeviceTaint{Key: model.DrainingTaint}}}))
}
