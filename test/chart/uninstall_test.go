package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shoenig/test"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestUninstallCheck: what runs before the chart goes may list claims, and nothing
// else; it exists while helm uninstalls only, and a failed job stays to be read.
func TestUninstallCheck(t *testing.T) {
	account, role := hook[*corev1.ServiceAccount](t, preDelete), hook[*rbacv1.ClusterRole](t, preDelete)
	binding, job := hook[*rbacv1.ClusterRoleBinding](t, preDelete), hook[*batchv1.Job](t, preDelete)
	want := []rbacv1.PolicyRule{{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims"}, Verbs: []string{"list"}}}
	test.Eq(t, want, role.Rules, test.Sprint("rights"))
	subject := rbacv1.Subject{Kind: "ServiceAccount", Name: account.Name, Namespace: namespace}
	if d := cmp.Diff([]rbacv1.Subject{subject}, binding.Subjects); d != "" || binding.RoleRef.Name != role.Name {
		t.Errorf("the binding is of role %s, for (-want +got):\n%s", binding.RoleRef.Name, d)
	}
	pod := job.Spec.Template.Spec
	if pod.ServiceAccountName != account.Name || pod.HostNetwork || len(pod.Volumes) > 0 || *job.Spec.BackoffLimit != 0 {
		t.Errorf("the pod is %+v", pod)
	}
	if d := cmp.Diff([]string{"uninstall-check"}, pod.Containers[0].Args); d != "" || pod.Containers[0].Image != driver(t, daemonSet(t)).Image {
		t.Errorf("image %s with arguments (-want +got):\n%s", pod.Containers[0].Image, d)
	}
	for _, o := range []map[string]string{account.Annotations, role.Annotations, binding.Annotations, job.Annotations} {
		if o["helm.sh/hook"] != "pre-delete" || o["helm.sh/hook-delete-policy"] != "before-hook-creation,hook-succeeded" {
			t.Errorf("annotations %v", o)
		}
	}
	test.Eq(t, 0, len(ofType[*batchv1.Job](t, preDelete, "--set", "uninstallCheck=false")),
		test.Sprint("uninstallCheck=false has a job all the same"))
}
