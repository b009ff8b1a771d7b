package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

func reserveFor(c *resourceapi.ResourceClaim, pods ...types.UID) {
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "group", UID: "group"}}
	for _, uid := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: string(uid), UID: uid})
	}
}

// TestReserved: a plan follows its claim from pod to pod, whoever else has changed it meanwhile.
func TestReserved(t *testing.T) {
	type uids = []types.UID
	for name, tc := range map[string]struct{ has, before, reserved, want uids }{
		"nothing new":                   {uids{"a", "b"}, uids{"a", "b"}, uids{"b", "a"}, uids{"a", "b"}},
		"one came":                      {uids{"a"}, uids{"a"}, uids{"a", "b"}, uids{"a", "b"}},
		"one came, one ended":           {uids{"a"}, uids{"a"}, uids{"b"}, uids{"b"}},
		"one that others have heard of": {uids{"a", "c"}, uids{"a"}, uids{"a", "b"}, uids{"a", "c", "b"}},
		"none":                          {nil, nil, nil, nil},
	} {
		c := claim(one(result("nic", "pci-0000-19-00-0")))
		reserveFor(c, tc.reserved...)
		p := &plan.Plan{Pods: tc.has, PodGroup: "group"}
		got := p.Reserved(c, tc.before)
		test.Eq(t, tc.want, got.Pods, test.Sprint(name))
		test.Eq(t, cmp.Equal(tc.has, tc.want), (got == p),
			test.Sprintf("%s: the plan is the same: %t", name, got == p))
	}
}

// TestPodGroup: a plan names the PodGroup of its claim, and that of an earlier version once the claim is read again.
// The pods of the group stay until they have ended.
func TestPodGroup(t *testing.T) {
	c := claim(one(result("nic", "pci-0000-19-00-0")))
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{
		{APIGroup: "example.com", Resource: "podgroups", Name: "other"},
		{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "group"},
	}
	made, err := plan.New(c, attaching())
	must.NoError(t, err)
	earlier := (&plan.Plan{Pods: []types.UID{"a", "b"}}).Reserved(c, []types.UID{"a"})
	test.True(t, made.PodGroup == "group" && len(made.Pods) == 0 && earlier.PodGroup == "group" &&
		len(earlier.Pods) == 1,
		test.Sprintf("plans of a claim of a PodGroup: %q with pods %v, and %q with pods %v", made.PodGroup,
			made.Pods, earlier.PodGroup, earlier.Pods))
}

// TestOnly: a claim that was made from a template is for its pod. What an earlier version has recorded
// does not say so until the claim is read again.
func TestOnly(t *testing.T) {
	yes := true
	for name, tc := range map[string]struct {
		owner metav1.OwnerReference
		want  types.UID
	}{
		"a pod":                {metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", UID: "a", Controller: &yes}, "a"},
		"a pod, no controller": {metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", UID: "a"}, ""},
		"a pod group":          {metav1.OwnerReference{APIVersion: "scheduling.k8s.io/v1alpha1", Kind: "PodGroup", UID: "a", Controller: &yes}, ""},
	} {
		c := claim(one(result("nic", "pci-0000-19-00-0")))
		c.OwnerReferences = []metav1.OwnerReference{tc.owner}
		reserveFor(c, "a")
		made, err := plan.New(c, attaching())
		must.NoError(t, err)
		earlier := &plan.Plan{Pods: []types.UID{"a"}}
		read := earlier.Reserved(c, earlier.Pods)
		test.True(t, made.Only == tc.want && read.Only == tc.want,
			test.Sprintf("%s: made for %q, read again %q, want %q", name, made.Only, read.Only, tc.want))
	}
}
