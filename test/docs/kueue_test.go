package docs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"
)

// kueueRefuses says why Kueue refuses a manifest, by the table of docs/kueue.md.
func kueueRefuses(t *testing.T, manifest string) (reasons []string) {
	t.Helper()
	for doc := range strings.SplitSeq(manifest, "\n---\n") {
		var kind struct{ Kind string }
		decodeInto(t, doc, &kind)
		var pod corev1.PodSpec
		var requests []resourceapi.DeviceRequest
		switch kind.Kind {
		case "Pod":
			var o corev1.Pod
			decodeInto(t, doc, &o)
			pod = o.Spec
		case "Job":
			var o batchv1.Job
			decodeInto(t, doc, &o)
			pod = o.Spec.Template.Spec
		case "ResourceClaimTemplate":
			var o resourceapi.ResourceClaimTemplate
			decodeInto(t, doc, &o)
			requests = o.Spec.Spec.Devices.Requests
		}
		for _, c := range pod.ResourceClaims {
			if c.ResourceClaimName != nil {
				reasons = append(reasons, "`resourceClaimName`")
			}
		}
		for _, r := range requests {
			switch {
			case r.FirstAvailable != nil:
				reasons = append(reasons, "`firstAvailable`")
			case r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess: // not counted
			case r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll:
				reasons = append(reasons, "`allocationMode: All`")
			}
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

func decodeInto(t *testing.T, doc string, into any) {
	t.Helper()
	must.NoError(t, yaml.Unmarshal([]byte(doc), into), must.Sprint(doc))
}

// TestKueue: docs/kueue.md names each example that Kueue refuses with the reason, and no other.
func TestKueue(t *testing.T) {
	refused := map[string]string{}
	examples, err := filepath.Glob(filepath.Join(checkout, "examples", "*.yaml"))
	must.NoError(t, err)
	for _, example := range examples {
		manifest, err := os.ReadFile(example)
		must.NoError(t, err)
		if reasons := kueueRefuses(t, string(manifest)); len(reasons) > 0 {
			refused[filepath.Base(example)] = strings.Join(reasons, ", ")
		}
	}
	page, err := os.ReadFile(filepath.Join(checkout, "docs", "kueue.md"))
	must.NoError(t, err)
	said := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) == 4 && strings.Contains(cells[1], "](../examples/") {
			name, _, _ := strings.Cut(strings.Trim(cells[1], " ["), "]")
			said[name] = strings.TrimSpace(cells[2])
		}
	}
	test.True(t, maps.Equal(refused, said),
		test.Sprintf("docs/kueue.md says %q, the examples say %q", said, refused))
}

// TestKueueRefuses: each row of the table that refuses by the manifest alone is recognised.
func TestKueueRefuses(t *testing.T) {
	const template = "kind: ResourceClaimTemplate\nspec: {spec: {devices: {requests: [{name: a, "
	for manifest, want := range map[string]string{
		template + "exactly: {deviceClassName: a, count: 2}}]}}}":                                  "",
		template + "exactly: {deviceClassName: a, allocationMode: All}}]}}}":                       "`allocationMode: All`",
		template + "exactly: {deviceClassName: a, adminAccess: true, allocationMode: All}}]}}}":    "",
		template + "firstAvailable: [{name: b, deviceClassName: a}]}]}}}":                          "`firstAvailable`",
		"kind: Pod\nspec: {resourceClaims: [{name: a, resourceClaimName: a}]}":                     "`resourceClaimName`",
		"kind: Job\nspec: {template: {spec: {resourceClaims: [{name: a, resourceClaimName: a}]}}}": "`resourceClaimName`",
	} {
		if got := strings.Join(kueueRefuses(t, manifest), ", "); got != want {
			t.Errorf("%q, want %q:\n%s", got, want, manifest)
		}
	}
}
