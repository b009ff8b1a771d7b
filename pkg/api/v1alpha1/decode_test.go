package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

func limit(s string) *Memlock {
	m := Memlock(s)
	return &m
}

func quantity(s string) *Quantity {
	return &Quantity{resource.MustParse(s)}
}

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
			says, _, _ := strings.Cut(err.Error(), " in scheme ") // a line of the library follows
			return "error: " + says
		}
		test.Eq(t, got, got.DeepCopyObject(), test.Sprint("deep copy differs"))
		data, err := json.Marshal(got)
		must.NoError(t, err)
		return string(data)
	})
	empty, err := Decode([]byte(claimJSON(`"nodes": [], "env": []`)))
	must.NoError(t, err)
	want := &HCAConfig{TypeMeta: meta(HCAConfigKind), Settings: Settings{Nodes: []string{}, Env: []string{}}}
	test.Eq[runtime.Object](t, want, empty, test.Sprint("empty lists are set"))
}

// A copy of parameters must not change with the original.
func TestDeepCopyIsDeep(t *testing.T) {
	class := &HCAClassConfig{
		Allow: Allow{Nodes: []string{"verbs"}, Env: []string{"ucx"}, MemlockMax: limit("1Gi"),
			AllowMarks: AllowMarks{TrafficClasses: []int{106}, ServiceLevels: []int{3}},
			LimitsMax:  Limits{Handles: quantity("8")}},
		Defaults: Settings{Memlock: limit("1Gi"), Nodes: []string{"verbs"}, Env: []string{"ucx"},
			Marks: Marks{TrafficClass: new(106), ServiceLevel: new(3)}, Limits: Limits{Objects: quantity("8")}},
	}
	claim := &HCAConfig{Settings: class.Defaults.DeepCopy()}
	classCopy, claimCopy := class.DeepCopyObject(), claim.DeepCopyObject()
	want, wantClaim := classCopy.DeepCopyObject(), claimCopy.DeepCopyObject()
	*class.Allow.MemlockMax, *class.Defaults.Memlock, *claim.Memlock = "2", "2", "2"
	class.Allow.Env[0] = "x"
	class.Allow.TrafficClasses[0], class.Allow.ServiceLevels[0] = 0, 0
	*class.Defaults.TrafficClass, *class.Defaults.ServiceLevel, *claim.TrafficClass, *claim.ServiceLevel = 0, 0, 0, 0
	class.Allow.Nodes[0], class.Defaults.Nodes[0], class.Defaults.Env[0], claim.Nodes[0], claim.Env[0] = "x", "x", "x", "x", "x"
	class.Allow.LimitsMax.Handles.Set(1)
	class.Defaults.Limits.Objects.Set(1)
	claim.Limits.Objects.Set(1)
	test.Eq(t, want, classCopy, test.Sprint("the copy of a class configuration changed"))
	test.Eq(t, wantClaim, claimCopy, test.Sprint("the copy of a claim configuration changed"))
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
