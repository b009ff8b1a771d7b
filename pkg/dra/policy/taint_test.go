package policy_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// TestTaintEffects: the effects that the file sets, with and without the domain.
func TestTaintEffects(t *testing.T) {
	c, err := policy.Parse([]byte(header + "taints:\n  port-down: NoExecute\n  rdma.dev/no-address: Off\n"))
	must.NoError(t, err)
	want := map[health.Condition]resourceapi.DeviceTaintEffect{health.PortDown: resourceapi.DeviceTaintEffectNoExecute,
		health.NoAddress: health.EffectOff}
	test.Eq(t, want, c.TaintEffects(), test.Sprint("effects"))
}

// TestNoTaints: where the API server has no taints, what a taint would close is left out,
// unless a claim holds it.
func TestNoTaints(t *testing.T) {
	var snap rdma.Snapshot
	for _, name := range []string{"down", "held", "informs", "well"} {
		snap.HCAs = append(snap.HCAs, rdma.HCA{Name: name, IBDev: name, Function: rdma.PF, NodeType: rdma.NodeTypeCA,
			Uverbs: &rdma.Node{Kind: rdma.NodeUverbs}, Ports: []rdma.Port{{Number: 1}}})
	}
	closed := []resourceapi.DeviceTaint{{Key: "rdma.dev/port-down", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	state := policy.State{
		Taints: map[string][]resourceapi.DeviceTaint{
			"down": closed, "held": closed, "informs": {{Key: "rdma.dev/no-address", Effect: resourceapi.DeviceTaintEffectNone}},
		},
		Held: map[string]policy.Held{"held": {Exclusive: true}},
	}
	published := func() map[string]int {
		out := map[string]int{}
		for _, s := range policy.Default().Apply(&snap, state).Slices() {
			for _, d := range s.Devices {
				out[d.Name] = len(d.Taints)
			}
		}
		return out
	}
	test.Eq(t, map[string]int{"down": 1, "held": 1, "informs": 1, "well": 0}, published(),
		test.Sprint("with taints"))
	state.NoTaints = true
	test.Eq(t, map[string]int{"held": 0, "informs": 0, "well": 0}, published(), test.Sprint("without"))
	for _, d := range policy.Default().Apply(&snap, state).Decisions {
		if d.HCA.Name == "down" && (d.Form != resources.FormNone || !strings.Contains(d.Reason, "rdma.dev/port-down")) {
			t.Errorf("decision is %+v", d)
		}
	}
}
