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
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"
)

// queued is what Kueue looks at in a pod, a job and a template of claims.
type queued struct {
	Spec struct {
		corev1.PodSpec
		Template struct{ Spec corev1.PodSpec }
		Spec     resourceapi.ResourceClaimSpec
	}
}

// kueueRefuses says why Kueue refuses a manifest, by the table of docs/kueue.md.
func kueueRefuses(t *testing.T, manifest string) (reasons []string) {
	t.Helper()
	for doc := range strings.SplitSeq(manifest, "\n---\n") {
		var o queued
		must.NoError(t, yaml.Unmarshal([]byte(doc), &o), must.Sprint(doc))
		for _, c := range slices.Concat(o.Spec.ResourceClaims, o.Spec.Template.Spec.ResourceClaims) {
			if c.ResourceClaimName != nil {
				reasons = append(reasons, "`resourceClaimName`")
			}
		}
		for _, r := range o.Spec.Spec.Devices.Requests {
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
