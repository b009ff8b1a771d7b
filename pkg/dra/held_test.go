package dra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/driver/nri"
	"github.com/rdma-dev/dra-driver-rdma/internal/kernel/watch"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/nriruntime"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra"
)

// Two pods.
const (
	podA = "aaaaaaaa-0000-4000-8000-000000000000"
	podB = "bbbbbbbb-0000-4000-8000-000000000000"
)

// told returns an error unless an event of the claim has a reason and a text.
func told(n *drivertest.Node, c *resourceapi.ResourceClaim, reason, text string) error {
	for _, e := range n.Events() {
		if e.Reason == reason && e.InvolvedObject.UID == c.UID && strings.Contains(e.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("claim %s has no event %s with %q", c.Name, reason, text)
}

// TestReservedPodsStay: when the API server says for which pods a claim is reserved, one that was deleted by force and
// runs stays known: it holds the HCA. One that has ended does not.
func TestReservedPodsStay(t *testing.T) {
	n, _, d := follow(t, make(chan watch.Signal))
	drivertest.WaitTaints(t, n, onlyHCA, "")
	a := nri.Pod{UID: podA, Namespace: "team-a", Name: "a", Netns: "/run/netns/a"}
	b := nri.Pod{UID: podB, Namespace: "team-a", Name: "b", Netns: "/run/netns/b"}
	c := reservedOn(n, 1, a)
	prepare(t, n, c)
	record := func() string {
		data, err := os.ReadFile(filepath.Join(n.RecordDir(), string(c.UID)+".json"))
		must.NoError(t, err)
		return string(data)
	}
	n.AddPodCgroup(t, podA)
	reserve(n, c, b)
	d.starts(b)
	text := record()
	test.True(t, strings.Contains(text, podA) && strings.Contains(text, podB),
		test.Sprintf("the record has not both pods: %s", text))
	d.Sandboxes().Stopped(t.Context(), b)
	n.RemovePodCgroup(t, podA)
	third := nri.Pod{UID: "cccccccc" + podA[8:], Namespace: "team-a", Name: "c", Netns: "/run/netns/c"}
	reserve(n, c, b, third)
	d.starts(third)
	test.StrNotContains(t, record(), podA, test.Sprint("the record has a pod that has ended"))
}

// TestHeldWithoutCgroups: where no cgroup of a pod can be seen, the container runtime's list decides. A list without the
// driver's own pod is not complete: the runtime may be starting.
func TestHeldWithoutCgroups(t *testing.T) {
	runtime := nriruntime.New(t)
	runtime.Up()
	own := nri.Pod{Namespace: "kube-system", Name: "driver", UID: "dddddddd-0000-4000-8000-000000000000"}
	n := drivertest.NewNode(t, "hgx-h100")
	d := start(t, n, func(c *dra.Config) {
		c.NRISocket, c.PodUID, c.Hook.ReportDir = runtime.Socket, types.UID(own.UID), drivertest.TempDir(t)
	})
	d.says("Connected to NRI")
	test.Eq(t, "connected", d.Status(t.Context()).NRI)
	c, next := drivertest.ReservedFor(drivertest.Claim(1, dev0), podA), drivertest.Claim(2, dev0)
	n.AddClaim(c, next)
	prepare(t, n, c)
	n.HideCgroups(t)
	n.RemoveClaim(c)
	refused(t, n, next, "no pod has a cgroup", "team-a/claim-1")
	wantFiles(t, n, c)
	must.NoError(t, runtime.Run(t.Context(), own))
	_, err := runtime.Create(t.Context(), own, "driver")
	must.NoError(t, err)
	prepare(t, n, next)
	wantFiles(t, n, next)
}
