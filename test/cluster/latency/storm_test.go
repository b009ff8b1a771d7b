package latency

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
)

// TestStorm: a link that fails and comes back a thousand times costs the API server at
// most one write a second, of its own slice, and ends right.
func TestStorm(t *testing.T) {
	needs.Long(t, "TestStorm of pkg/dra counts the writes of a storm, beside a fake API server")
	n := start(t, 128, "health: {downAfter: 1s, upAfter: 1s}")
	before := n.versions()
	must.GreaterEq(t, 2, len(before),
		must.Sprintf("there is %d slice: the test wants another one beside it", len(before)))
	n.writes.take()
	began := time.Now()
	for range 1000 {
		n.set(true)
		n.set(false)
	}
	stormed := time.Since(began)
	n.await(func(d *resourceapi.Device) bool { return len(d.Taints) == 1 && d.Taints[0].Key == "rdma.dev/port-down" })
	n.set(true)
	n.await(func(d *resourceapi.Device) bool { return len(d.Taints) == 0 })
	took, writes := time.Since(began), len(n.writes.take())
	t.Logf("1000 flaps in %v: %d writes in %v", stormed, writes, took)
	if most := int(took/time.Second) + 2; writes > most {
		t.Errorf("%d writes in %v, want at most %d", writes, took, most)
	}
	for name, version := range n.versions() {
		if name != n.last.slice.Name && before[name] != version {
			t.Errorf("slice %s was written, which has not %s", name, n.port.Name)
		}
	}
}

// versions are the resource versions of the node's slices.
func (n *node) versions() map[string]string {
	n.Helper()
	list, err := n.client.ResourceV1().ResourceSlices().List(n.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.name})
	if err != nil {
		n.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range list.Items {
		out[s.Name] = s.ResourceVersion
	}
	return out
}
