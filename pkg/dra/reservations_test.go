package dra_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
)

// reserve has a claim reserved for just these pods, as the API server has it from now on. The kubelet
// prepares no claim again for a pod that comes later.
func reserve(n *drivertest.Node, c *resourceapi.ResourceClaim, pods ...nri.Pod) {
	c.Status.ReservedFor = nil
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: types.UID(p.UID)})
	}
	n.AddClaim(c)
}

// ofPod makes a claim one that was made from a template for a pod.
func ofPod(c *resourceapi.ResourceClaim, pod nri.Pod) *resourceapi.ResourceClaim {
	yes := true
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: types.UID(pod.UID), Controller: &yes}}
	return c
}

// rewrite replaces a part of a claim's record, which has to be there.
func rewrite(t *testing.T, n *drivertest.Node, c *resourceapi.ResourceClaim, old, now string) {
	t.Helper()
	path := filepath.Join(n.RecordDir(), string(c.UID)+".json")
	data, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(data), old) {
		err = fmt.Errorf("the record has no %s: %s", old, data)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(data), old, now, 1)), 0o600)
	}
	must.NoError(t, err)
}

// starts starts a pod, which must succeed.
func (d *driver) starts(pod nri.Pod) {
	d.t.Helper()
	must.NoError(d.t, d.Sandboxes().Started(d.t.Context(), pod))
}

// waits starts a pod, which must fail and say why, to the runtime and in an event of the pod.
func (d *driver) waits(pod nri.Pod, parts ...string) {
	d.t.Helper()
	err := d.Sandboxes().Started(d.t.Context(), pod)
	must.Error(d.t, err, must.Sprintf("pod %s was started", pod.Name))
	drivertest.Eventually(d.t, func() error {
		for _, e := range d.node.Events() {
			missing := func(part string) bool { return !strings.Contains(e.Message, part) }
			about := e.InvolvedObject.UID == types.UID(pod.UID) && e.Reason == event.MoveFailed.Reason
			if about && !slices.ContainsFunc(parts, missing) {
				return nil
			}
		}
		return fmt.Errorf("no event of pod %s says %q", pod.Name, parts)
	})
	for _, part := range parts {
		test.StrContains(d.t, err.Error(), part, test.Sprintf("error %v", err))
	}
}

// TestLaterPodCost: the API server is asked once for each claim that the pod may share, and for no other.
func TestLaterPodCost(t *testing.T) {
	n, _, d := follow(t, make(chan watch.Signal))
	drivertest.WaitTaints(t, n, onlyHCA, "")
	a := podNamed("a")
	costs := func(what string, pod nri.Pod, want int) {
		t.Helper()
		before := n.Count(drivertest.GetClaim)
		d.starts(pod)
		test.Eq(t, want, n.Count(drivertest.GetClaim)-before, test.Sprint(what))
	}
	other, elsewhere := podNamed("other"), podNamed("elsewhere")
	elsewhere.Namespace = "team-b"
	costs("no claim is prepared", other, 0)
	own := ofPod(reserved(1, a, onlyHCA), a)
	n.AddClaim(own)
	prepare(t, n, own)
	costs("the claim was made for one pod", other, 0)
	rewrite(t, n, own, `,"only":"uid-a"`, "")
	costs("the record does not say so", other, 1)
	costs("now it does", podNamed("another"), 0)
	unprepare(t, n, own)
	shared := reservedOn(n, 2, a)
	prepare(t, n, shared)
	costs("its pod", a, 0)
	costs("a pod that may share it", other, 1)
	costs("a pod of another namespace", elsewhere, 0)
	d.Sandboxes().Stopped(t.Context(), a)
	unprepare(t, n, shared)
	monitor := drivertest.Monitor(3, onlyHCA)
	n.AddClaim(monitor)
	prepare(t, n, monitor)
	costs("a claim of which nothing follows", other, 0)
}

// TestLaterPodNames: a claim that is prepared for a pod has another name for its interface than the claim that the pod shares
// with one that was there before. Of two claims that have their names already, an event says so.
func TestLaterPodNames(t *testing.T) {
	t.Parallel()
	_, attach := attaching(t, "")
	n := drivertest.NewNode(t, "roce-sriov")
	d := start(t, n, attach, withEvents)
	a, _ := inside(t, "a")
	b, inB := inside(t, "b")
	shared := drivertest.WithNetwork(reserved(1, a, vf), `{"mode": "macvlan"}`)
	n.AddClaim(shared)
	prepare(t, n, shared)
	d.starts(a)
	reserve(n, shared, a, b)
	own := ofPod(drivertest.WithNetwork(reserved(2, b, "pci-0000-3b-00-0"), `{"mode": "macvlan"}`), b)
	n.AddClaim(own)
	n.Fail(drivertest.GetClaimOf(shared), http.StatusServiceUnavailable)
	refused(t, n, own, "name its network interfaces", "claim team-a/claim-1")
	n.Fail(drivertest.GetClaimOf(shared), 0)
	prepare(t, n, own)
	test.StrContains(t, specSays(t, n, own), "RDMA_INTERFACE_PCI_0000_3B_00_0=rdma1",
		test.Sprint("the interface has a name that the pod"))
	d.starts(b)
	for _, name := range []string{"rdma0", "rdma1"} {
		inB.IP("link show dev " + name)
	}
	third, _ := inside(t, "c")
	another := drivertest.WithNetwork(reserved(3, podNamed("d"), "pci-0000-3b-00-1"), `{"mode": "macvlan"}`)
	n.AddClaim(another)
	prepare(t, n, another)
	reserve(n, another, third)
	reserve(n, shared, a, b, third)
	d.waits(third, "claims team-a/claim-1 and team-a/claim-3 both have rdma0", "network.interface")
}
