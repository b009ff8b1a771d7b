package chart

import (
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

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

// TestHelmTestValues: the test claims from the site's classes, and expects the site's limit.
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
}
