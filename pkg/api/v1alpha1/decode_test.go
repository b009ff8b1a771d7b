package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

func meta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: kind}
}

// claimJSON and classJSON make parameters of either kind from their fields.
func claimJSON(fields string) string { return paramsJSON(HCAConfigKind, fields) }
func classJSON(fields string) string { return paramsJSON(HCAClassConfigKind, fields) }

func paramsJSON(kind, fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return `{"apiVersion": "rdma.dev/v1alpha1", "kind": "` + kind + `"` + fields + `}`
}

// TestDecode: each error must name what is wrong and what would be right: it reaches the user as an event of the pod,
// far from the manifest.
func TestDecode(t *testing.T) {
	golden.Cases(t, "decode", func(t *testing.T, raw string) string {
		got, err := Decode([]byte(raw))
		if err != nil {
			return "error: " + err.Error()
		}
		data, err := json.Marshal(got)
		must.NoError(t, err)
		return string(data)
	})
	empty, err := Decode([]byte(claimJSON(`"nodes": [], "env": []`)))
	must.NoError(t, err)
	want := &HCAConfig{TypeMeta: meta(HCAConfigKind), Settings: Settings{Nodes: []string{}, Env: []string{}}}
	test.Eq[any](t, want, empty, test.Sprint("empty lists are set"))
}

// Whatever stands in a claim, decoding it neither panics nor accepts parameters
// that do not pass their own validation.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		claimJSON(`"memlock": "4Gi", "nodes": ["verbs"], "env": ["nccl"]`),
		claimJSON(`"memlock": 65536`),
		claimJSON(`"memlock": 1e400`),
		claimJSON(`"limits": {"handles": 1e400, "objects": "1Mi"}`),
		classJSON(`"allow": {"nodes": ["mad"], "memlockMax": "8Gi"}, "defaults": {"memlock": "inherit"}`),
		`{}`, `[]`, `null`, `{"apiVersion": 1}`, "\xff", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		obj, err := Decode(raw)
		if err != nil {
			return
		}
		var invalid error
		switch c := obj.(type) {
		case *HCAConfig:
			invalid = c.Validate().ToAggregate()
		case *HCAClassConfig:
			invalid = c.Validate().ToAggregate()
		default:
			t.Fatalf("decoded a %T", obj)
		}
		test.NoError(t, invalid, test.Sprintf("accepted %q", raw))
	})
}
