package follow

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/vm/inside"
)

// createGroup makes a claim, and a PodGroup of its name that uses it.
func createGroup(t *testing.T, c *resourceapi.ResourceClaim) {
	t.Helper()
	createClaim(t, c)
	group := &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name},
		Spec: schedulingapi.PodGroupSpec{
			SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Basic: &schedulingapi.BasicSchedulingPolicy{}},
			ResourceClaims:   []schedulingapi.PodGroupResourceClaim{{Name: "hca", ResourceClaimName: ptr.To(c.Name)}},
		},
	}
	groups := client.SchedulingV1beta1().PodGroups(namespace)
	if _, err := groups.Create(t.Context(), group, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createMember makes a pod of a PodGroup.
func createMember(t *testing.T, name, ibdev, group string) {
	t.Helper()
	p := pod(name, ibdev, one)
	p.Spec.ResourceClaims[0].ResourceClaimName = ptr.To(group)
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group)}
	createPod(t, p)
}

// ofGroup checks that a claim is reserved for its PodGroup alone: no pod is in the claim's status.
func ofGroup(t *testing.T, name string) {
	t.Helper()
	c, err := client.ResourceV1().ResourceClaims(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must.NoError(t, err)
	if of := c.Status.ReservedFor; len(of) != 1 || of[0].Resource != "podgroups" || of[0].Name != name {
		t.Errorf("claim %s is reserved for %+v", name, of)
	}
}

// endGroup deletes a PodGroup and its claim, after its pods.
func endGroup(t *testing.T, name string) {
	t.Helper()
	groups := client.SchedulingV1beta1().PodGroups(namespace)
	must.NoError(t, groups.Delete(t.Context(), name, metav1.DeleteOptions{}))
	ends(t, name)
}

// TestPodGroup: in exclusive mode one pod of a PodGroup has the HCA and the interface of the group's claim. Another one
// waits, and its event names the first. It gets both when the first has ended. TEST_LONG also has an HCA without its
// interface.
func TestPodGroup(t *testing.T) {
	needs.Long(t, "TestPodGroup of test/cluster/e2e/podgroups has the claim, and TestFollow an HCA that moves")
	before := counted(t)
	takeTurns(t, networked("group", "rxm1", `{"addresses":["10.79.4.1/24"],"mode":"move"}`), end.described)
	if needs.IsLong() {
		takeTurns(t, claim("group", "rxm1"), func(end, *testing.T) {})
	}
	home(t, before)
}

// takeTurns has two pods of a PodGroup have its claim, one after the other.
func takeTurns(t *testing.T, c *resourceapi.ResourceClaim, described func(end, *testing.T)) {
	t.Helper()
	createGroup(t, c)
	first, next := end{"member-a", "one", "rxm1"}, end{"member-b", "one", "rxm1"}
	createMember(t, first.pod, first.ibdev, "group")
	ready(t, first.pod)
	ofGroup(t, "group")
	described(first, t)
	createMember(t, next.pod, next.ibdev, "group")
	inside.Eventually(t, "an event says which pod has the device", 3*time.Minute, func() error {
		all, why := events(t, next.pod), "RDMA device rxm1 is in pod default/"+first.pod
		if !slices.ContainsFunc(all, func(e string) bool {
			return strings.HasPrefix(e, "RDMAMoveFailed: ") && strings.Contains(e, why)
		}) {
			return errors.New(strings.Join(all, "\n"))
		}
		return nil
	})
	logged(t, first.pod, "one", "hca_id:\trxm1")
	ends(t, first.pod)
	ready(t, next.pod)
	logged(t, next.pod, "one", "hca_id:\trxm1")
	described(next, t)
	ends(t, next.pod)
	endGroup(t, "group")
}

// TestPodGroupShared: in shared mode each pod of a PodGroup has its own macvlan and address by the group's claim. Each
// writes to the other by the GID index that it was told.
func TestPodGroupShared(t *testing.T) {
	needs.Long(t, "TestPodGroup shows it in exclusive mode, and TestMove interfaces in pods")
	share(t)
	before := counted(t)
	createGroup(t, networked("group", "rxm1", `{"ipam":"roce","mode":"macvlan"}`))
	a, b := end{"member-a", "one", "rxm1"}, end{"member-b", "one", "rxm1"}
	createMember(t, a.pod, a.ibdev, "group")
	createMember(t, b.pod, b.ibdev, "group")
	ready(t, a.pod)
	ready(t, b.pod)
	ofGroup(t, "group")
	if of, other := a.link(t), b.link(t); of.MAC == other.MAC || slices.Equal(of.addresses(), other.addresses()) {
		t.Errorf("two pods have %v and %v", of, other)
	}
	write(t, a, b, podInterface, podInterface, a.address(t).String())
	ends(t, a.pod)
	ends(t, b.pod)
	endGroup(t, "group")
	home(t, before)
}
