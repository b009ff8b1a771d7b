package promises

import (
	"strings"
	"testing"

	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// TestPlugin: kubectl rdma on a cluster whose kubelet and driver work. What it says of
// pods that the scheduler leaves waiting is proved in package plugin.
func TestPlugin(t *testing.T) {
	plugin := bed.Plugin()
	n := bed.Namespace(t)
	rdma := func(args ...string) string { return plugin.Run(t, n.Name, args...) }
	n.Apply(testbed.Template("inherits", "hca.rdma.dev", `{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, memlock: inherit}`) + testbed.Pod("good", "resourceClaimTemplateName: inherits"))
	n.Ready("good")
	if out := rdma("nodes", "--no-headers"); !strings.Contains(out, "Ready") || strings.Contains(out, "NotReady") ||
		strings.Contains(out, "Missing") {
		t.Errorf("kubectl rdma nodes:\n%s", out)
	}
	if out := rdma("claims", "--no-headers"); !strings.Contains(out, "InUse") || !strings.Contains(out, "mlx5_") {
		t.Errorf("kubectl rdma claims:\n%s", out)
	}
	if out := rdma("topology"); !strings.Contains(out, "allocated to "+n.Name+"/") || !strings.Contains(out, "root pci") {
		t.Errorf("kubectl rdma topology:\n%s", out)
	}
	n.Apply(testbed.Template("bad", "hca.rdma.dev", `{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, nodes: [verbs, mad]}`) + testbed.Pod("bad", "resourceClaimTemplateName: bad"))
	n.Event("bad", "nodes[1]", "mad")
	for pod, want := range map[string]string{"good": "fine", "bad": "unprepared"} {
		answer := plugin.Why(t, n.Name, pod)
		if answer.Verdict != want || pod == "bad" && !strings.Contains(answer.Summary, "mad") {
			t.Errorf("why %s: %+v, want %s", pod, answer, want)
		}
	}
}
