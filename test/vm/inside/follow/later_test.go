package follow

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// createSharing makes a pod with the claim of another one, which is prepared already.
func createSharing(t *testing.T, name, ibdev, claim string) {
	t.Helper()
	p := pod(name, ibdev, one)
	p.Spec.ResourceClaims[0].ResourceClaimName = ptr.To(claim)
	createPod(t, p)
}

// A pod that names the claim of one that runs waits, and hears which one has device and interface. It gets
// both when that pod is deleted, without anybody's help.
func TestLater(t *testing.T) {
	needs.Long(t, "TestPodGroup shows a pod that waits for the device of another one")
	before := counted(t)
	first, next := end{"first", "one", "rxm1"}, end{"next", "one", "rxm1"}
	createNetworked(t, first.pod, first.ibdev, `{"addresses":["10.79.2.1/24"],"mode":"move"}`)
	ready(t, first.pod)
	createSharing(t, next.pod, next.ibdev, first.pod)
	inside.Eventually(t, "an event says which pod has the device", 3*time.Minute, func() error {
		all := events(t, next.pod)
		if !slices.ContainsFunc(all, func(e string) bool {
			return strings.HasPrefix(e, "RDMAMoveFailed: ") && strings.Contains(e, "RDMA device rxm1 is in pod default/first")
		}) {
			return errors.New(strings.Join(all, "\n"))
		}
		return nil
	})
	logged(t, first.pod, "one", "hca_id:\trxm1")
	must.NoError(t, client.CoreV1().Pods(namespace).Delete(t.Context(), first.pod, metav1.DeleteOptions{}))
	ready(t, next.pod)
	logged(t, next.pod, "one", "hca_id:\trxm1", "PORT_ACTIVE")
	test.SliceEqOp(t, []string{"10.79.2.1/24"}, next.link(t).addresses(), test.Sprint("the next pod"))
	ends(t, next.pod)
	ends(t, first.pod) // the claim
	home(t, before)
}

// In shared mode each pod that names a claim has a macvlan of its own, whenever it comes.
func TestLaterShared(t *testing.T) {
	needs.Long(t, "TestMove shows interfaces of pods, and TestPodGroup pods with one claim")
	share(t)
	before := counted(t)
	createNetworked(t, "first", "rxm1", `{"mode":"macvlan"}`)
	ready(t, "first")
	createSharing(t, "next", "rxm1", "first")
	ready(t, "next")
	macs := map[string]bool{}
	for _, name := range []string{"first", "next"} {
		links, err := linksOf("nsenter", "--net", "--target", strconv.Itoa(sandbox(t, name)))
		must.NoError(t, err)
		i := slices.IndexFunc(links, func(l *link) bool { return l.Name == podInterface && l.up() })
		must.GreaterEq(t, 0, i, must.Sprintf("pod %s has no %s that is up: %v", name, podInterface, links))
		macs[links[i].MAC] = true
	}
	test.Eq(t, 2, len(macs), test.Sprintf("the hardware addresses of two pods are %v", macs))
	ends(t, "next")
	ends(t, "first")
	home(t, before)
}
