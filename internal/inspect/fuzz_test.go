package inspect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/lists"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/pkg/topology"
)

// fuzzed is what an API server sends, in the encoding in which it does.
type fuzzed struct {
	Pod    corev1.Pod
	Claims []resourceapi.ResourceClaim
	Slices []resourceapi.ResourceSlice
	Events []corev1.Event
	Rules  []resourceapi.DeviceTaintRule
	Nodes  []corev1.Node
}

// FuzzInspect: whatever objects say, also what no API server would let pass, nothing
// panics, and no text has anything that a terminal acts on.
func FuzzInspect(f *testing.F) {
	small := fleet.New(f)
	small.Node("node1", "roce-lag", "")
	small.Allocate("node1", "one", claim(want("nic", "hca.rdma.dev")))
	c := cluster(small)
	all := &resourceapi.DeviceTaintSelector{}
	for _, name := range []string{"one", "two"} {
		seed := fuzzed{Pod: fleet.Pod(name), Claims: c.Claims, Slices: c.Slices,
			Rules:  []resourceapi.DeviceTaintRule{{Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: all}}},
			Events: []corev1.Event{{Reason: "FailedPrepareDynamicResources", Message: "\x1b[2Jx"}}}
		data, err := json.Marshal(seed)
		must.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"claims": [{"status": {"allocation": {"devices": {"results": [{}]}}}}], "slices": [{"spec": {"driver": "rdma.dev", "pool": {"resourceSliceCount": 1}, "devices": [{}]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in fuzzed
		if json.Unmarshal(data, &in) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c := &model.Cluster{Slices: in.Slices, Claims: in.Claims, Rules: in.Rules, Nodes: in.Nodes, Classes: c.Classes}
		lists.Claims(ctx, c)
		_, _ = lists.Nodes(ctx, c)
		var text bytes.Buffer
		nodes, _ := lists.Topologies(ctx, c, model.NodeChoice{})
		for _, n := range nodes {
			_ = n.WriteTree(&text, topology.BoxLines)
		}
		if answer, err := why.Explain(ctx, c, why.Question{Pod: in.Pod, Events: in.Events}); err == nil {
			if answer.Verdict == "" || answer.Summary == "" {
				t.Errorf("no answer: %+v", answer)
			}
			_ = answer.WriteText(&text, true)
		}
		if i := strings.IndexFunc(text.String(), func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); i >= 0 {
			t.Errorf("the text has %q: %q", text.String()[i], text.String())
		}
	})
}
