package why

import (
	"maps"
	"slices"
	"testing"

	"github.com/shoenig/test"
	corev1 "k8s.io/api/core/v1"
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

// TestWriters: an event is a cause only if the component wrote it that writes events with its reason. Users may write
// events, too.
func TestWriters(t *testing.T) {
	reasons := slices.Concat(slices.Collect(maps.Keys(preparation)), explainedBeside, slices.Collect(maps.Keys(writers)))
	for _, reason := range reasons {
		e := corev1.Event{Reason: reason, Source: corev1.EventSource{Component: "someone"}}
		test.False(t, isFromItsComponent(&e), test.Sprint(reason, "of someone"))
		e.Source.Component = "kubelet"
		_, another := writers[reason]
		test.Eq(t, !another || reason == "FailedAttachVolume", isFromItsComponent(&e), test.Sprint(reason, "of the kubelet"))
	}
}
