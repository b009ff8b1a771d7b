package chart

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestHelmTest: the check may read what it judges, and nothing else. The pod with the claim has no rights.
func TestHelmTest(t *testing.T) {
	account, role := hook[*corev1.ServiceAccount](t, helmTest), hook[*rbacv1.Role](t, helmTest)
	inCluster := hook[*rbacv1.ClusterRole](t, helmTest)
	check, tc := hook[*corev1.Pod](t, helmTest), hook[*appsv1.ReplicaSet](t, helmTest)
	want := []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{"apps"}, Resources: []string{"daemonsets"},
			ResourceNames: []string{fullname}},
		{Verbs: []string{"get"}, APIGroups: []string{"apps"}, Resources: []string{"replicasets"},
			ResourceNames: []string{tc.Name}},
		{APIGroups: []string{""}, Resources: []string{"pods", "events"}, Verbs: []string{"list"}},
	}
	test.Eq(t, want, role.Rules, test.Sprint("rights in the namespace"))
	want = []rbacv1.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}},
	}
	test.Eq(t, want, inCluster.Rules, test.Sprint("rights in the cluster"))
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: namespace}}
	for _, got := range [][]rbacv1.Subject{
		hook[*rbacv1.RoleBinding](t, helmTest).Subjects, hook[*rbacv1.ClusterRoleBinding](t, helmTest).Subjects,
	} {
		test.Eq(t, subjects, got, test.Sprint("subjects"))
	}
	pod := tc.Spec.Template.Spec
	if check.Spec.ServiceAccountName != account.Name || pod.ServiceAccountName != "" ||
		*pod.AutomountServiceAccountToken {
		t.Errorf("accounts %q and %q", check.Spec.ServiceAccountName, pod.ServiceAccountName)
	}
	for _, c := range []corev1.Container{check.Spec.Containers[0], pod.Containers[0]} {
		test.Eq(t, driver(t, daemonSet(t)).Image, c.Image, test.Sprint("image"))
	}
	args := []string{"install-check", "--namespace=" + namespace, "--daemonset=" + fullname, "--replicaset=" + tc.Name}
	test.Eq(t, args, check.Spec.Containers[0].Args, test.Sprint("arguments"))
}

// TestHelmTestAlone: no controller, Service or policy takes a pod of the test for another one.
func TestHelmTestAlone(t *testing.T) {
	check, c := hook[*corev1.Pod](t, helmTest), hook[*appsv1.ReplicaSet](t, helmTest)
	for name, selector := range map[string]*metav1.LabelSelector{
		"DaemonSet": daemonSet(t).Spec.Selector, "ReplicaSet": c.Spec.Selector,
	} {
		s, err := metav1.LabelSelectorAsSelector(selector)
		must.NoError(t, err)
		test.False(t, s.Matches(labels.Set(check.Labels)),
			test.Sprintf("the %s takes the pod of install-check", name))
		test.Eq(t, name == "ReplicaSet", s.Matches(labels.Set(c.Spec.Template.Labels)),
			test.Sprintf("the %s takes the test pod", name))
	}
}

// TestHelmTestOrder: the claim template is there before the test pod, and the test pod before the check. Nothing but a
// failed check stays.
func TestHelmTestOrder(t *testing.T) {
	weights := map[string]string{}
	for _, o := range []metav1.Object{
		hook[*corev1.ServiceAccount](t, helmTest), hook[*rbacv1.Role](t, helmTest), hook[*rbacv1.RoleBinding](t, helmTest),
		hook[*rbacv1.ClusterRole](t, helmTest), hook[*rbacv1.ClusterRoleBinding](t, helmTest),
		hook[*resourceapi.ResourceClaimTemplate](t, helmTest), hook[*appsv1.ReplicaSet](t, helmTest),
		hook[*corev1.Pod](t, helmTest),
	} {
		a := o.GetAnnotations()
		test.Eq(t, "before-hook-creation,hook-succeeded", a["helm.sh/hook-delete-policy"],
			test.Sprintf("%T: annotations %v", o, a))
		kind := fmt.Sprintf("%T", o)
		kind = kind[strings.LastIndexByte(kind, '.')+1:]
		weights[a["helm.sh/hook-weight"]] += kind + " "
	}
	want := map[string]string{
		"-2": "ServiceAccount Role RoleBinding ClusterRole ClusterRoleBinding ResourceClaimTemplate ",
		"-1": "ReplicaSet ", "0": "Pod ",
	}
	test.Eq(t, want, weights, test.Sprint("weights"))
}

// TestHelmTestValues: the test claims from the site's classes, expects the site's limit, and can be left out.
func TestHelmTestValues(t *testing.T) {
	for _, tc := range []struct{ set, want string }{
		{"lockedMemory.limit=4Gi", "--memlock=4Gi"},
		{"hostPaths.hook=", "--memlock=inherit"},
		{"testing.hostRoot=/tmp/host", "--fixture"},
	} {
		args := hook[*appsv1.ReplicaSet](t, helmTest, "--set", tc.set).Spec.Template.Spec.Containers[0].Args
		test.StrContains(t, strings.Join(args, " ")+" ", tc.want+" ",
			test.Sprintf("%s: arguments %q, want %s", tc.set, args, tc.want))
	}
	var classes []string
	template := hook[*resourceapi.ResourceClaimTemplate](t, helmTest, "--set", "testDeviceClasses={b.example.com,a}")
	requests := template.Spec.Spec.Devices.Requests
	for _, r := range requests[0].FirstAvailable {
		classes = append(classes, r.DeviceClassName)
	}
	test.Eq(t, []string{"b.example.com", "a"}, classes, test.Sprint("classes"))
	test.Eq(t, 0, len(ofType[*corev1.Pod](t, helmTest, "--set-json", "testDeviceClasses=[]")),
		test.Sprint("without classes there is a test"))
}
