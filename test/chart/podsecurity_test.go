package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
)

// violations are the checks of a Pod Security level that refuse a pod, with what they say, by
// the library that the API server has.
func violations(t *testing.T, level api.Level, pod *corev1.PodTemplateSpec) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, check := range podsecurity.DefaultChecks() {
		evaluator, err := podsecurity.NewEvaluator([]podsecurity.Check{check}, nil)
		must.NoError(t, err)
		for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				found[string(check.ID)] = result.ForbiddenReason + ": " + result.ForbiddenDetail
			}
		}
	}
	return found
}

// TestPodSecurity: the level "baseline" has just the host's network and the host's
// directories against the driver's pod, and docs/security.md has a line for each. The pods
// of helm test and helm uninstall meet the level "restricted".
func TestPodSecurity(t *testing.T) {
	got := violations(t, api.LevelBaseline, &daemonSet(t).Spec.Template)
	want := map[string]string{
		"hostNamespaces":  "host namespaces: hostNetwork=true",
		"hostPathVolumes": `hostPath volumes: volumes "sys", "dev", "cdi", "state", "plugin", "plugins-registry", "pod-resources", "hook", "hook-reports"`,
	}
	test.Eq(t, want, got, test.Sprint("violated checks"))
	doc := readFile(t, securityDoc)
	for _, id := range slices.Sorted(maps.Keys(got)) {
		test.StrContains(t, doc, "| `"+id+"` | "+got[id]+" |",
			test.Sprint("docs/security.md lacks the line"))
	}
	restricted := slices.Sorted(maps.Keys(violations(t, api.LevelRestricted, &daemonSet(t).Spec.Template)))
	test.Eq(t, []string{"hostNamespaces", "hostPathVolumes", "restrictedVolumes", "runAsNonRoot", "runAsUser"}, restricted,
		test.Sprint("violated checks of the level restricted"))
	// Values of the chart add nothing but the capabilities of network.enabled.
	full := violations(t, api.LevelBaseline, &daemonSet(t, "--values", "testdata/full.values.yaml").Spec.Template)
	delete(full, "seLinuxOptions") // seLinuxType
	if got, want := full["capabilities_baseline"], `non-default capabilities: container "driver" must not include "NET_ADMIN", "SYS_ADMIN" in securityContext.capabilities.add`; got != want || !strings.Contains(doc, "`capabilities_baseline`") {
		t.Errorf("capabilities: %q, want %q, and docs/security.md to name the check", got, want)
	}
	delete(full, "capabilities_baseline")
	test.Eq(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(full)),
		test.Sprint("violated checks with all values"))
	install := hook[*corev1.Pod](t, helmTest)
	for name, pod := range map[string]*corev1.PodTemplateSpec{
		"uninstall-check": &hook[*batchv1.Job](t, preDelete).Spec.Template,
		"container-check": &hook[*appsv1.ReplicaSet](t, helmTest).Spec.Template,
		"install-check":   {ObjectMeta: install.ObjectMeta, Spec: install.Spec},
	} {
		if v := violations(t, api.LevelRestricted, pod); len(v) > 0 {
			t.Errorf("the pod of %s: %v", name, v)
		}
	}
}
