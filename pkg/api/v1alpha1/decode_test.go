package v1alpha1

import (
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

func TestDecode(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		want      runtime.Object
	}{
		{"claim, nothing set", claimJSON(""), &HCAConfig{TypeMeta: meta(HCAConfigKind)}},
		{"class, nothing set", classJSON(""), &HCAClassConfig{TypeMeta: meta(HCAClassConfigKind)}},
		{
			"claim, every field", claimJSON(`"memlock": "4Gi", "nodes": ["verbs", "cm", "mad", "sm"], "env": ["nccl", "ucx", "nccl-topology"]`),
			&HCAConfig{TypeMeta: meta(HCAConfigKind), Settings: Settings{
				Memlock: limit("4Gi"), Nodes: []string{"verbs", "cm", "mad", "sm"}, Env: []string{"nccl", "ucx", "nccl-topology"},
			}},
		},
		{
			"class, every field",
			classJSON(`"allow": {"nodes": ["verbs", "mad"], "memlockMax": "8Gi", "env": ["ucx"]}, "defaults": {"memlock": "1Gi", "nodes": ["verbs", "mad"], "env": ["ucx"]}`),
			&HCAClassConfig{
				TypeMeta: meta(HCAClassConfigKind),
				Allow:    Allow{Nodes: []string{"verbs", "mad"}, MemlockMax: limit("8Gi"), Env: []string{"ucx"}},
				Defaults: Settings{Memlock: limit("1Gi"), Nodes: []string{"verbs", "mad"}, Env: []string{"ucx"}},
			},
		},
		{"memlock unlimited", claimJSON(`"memlock": "unlimited"`), withMemlock("unlimited")},
		{"memlock inherit", claimJSON(`"memlock": "inherit"`), withMemlock("inherit")},
		{"memlock number", claimJSON(`"memlock": 65536`), withMemlock("65536")},
		{"memlock number in a string", claimJSON(`"memlock": "65536"`), withMemlock("65536")},
		{"memlock exponent", claimJSON(`"memlock": 1e9`), withMemlock("1e9")},
		{"memlock decimal suffix", claimJSON(`"memlock": "500M"`), withMemlock("500M")},
		{"memlock fraction of a unit", claimJSON(`"memlock": "1.5Gi"`), withMemlock("1.5Gi")},
		{"memlock of podman and docker", claimJSON(`"memlock": "64m"`), withMemlock("64m")},
		{"memlock of 19 digits", claimJSON(`"memlock": 1099511627776000000`), withMemlock("1099511627776000000")},
		{"memlock null is not set", claimJSON(`"memlock": null`), &HCAConfig{TypeMeta: meta(HCAConfigKind)}},
		{"limits", claimJSON(`"limits": {"handles": 64, "objects": "1M"}`), &HCAConfig{
			TypeMeta: meta(HCAConfigKind), Settings: Settings{Limits: Limits{Handles: quantity("64"), Objects: quantity("1M")}},
		}},
		{"limits, fraction of a unit", claimJSON(`"limits": {"objects": "1.5Ki"}`), &HCAConfig{
			TypeMeta: meta(HCAConfigKind), Settings: Settings{Limits: Limits{Objects: quantity("1.5Ki")}},
		}},
		{"limits, one of them", claimJSON(`"limits": {"objects": 2147483647}`), &HCAConfig{
			TypeMeta: meta(HCAConfigKind), Settings: Settings{Limits: Limits{Objects: quantity("2147483647")}},
		}},
		{"limits of a class", classJSON(`"allow": {"limitsMax": {"handles": 8}}, "defaults": {"limits": {"handles": 8}}`),
			&HCAClassConfig{
				TypeMeta: meta(HCAClassConfigKind),
				Allow:    Allow{LimitsMax: Limits{Handles: quantity("8")}},
				Defaults: Settings{Limits: Limits{Handles: quantity("8")}},
			}},
		{"empty lists are set", claimJSON(`"nodes": [], "env": []`), &HCAConfig{
			TypeMeta: meta(HCAConfigKind), Settings: Settings{Nodes: []string{}, Env: []string{}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Decode([]byte(tc.raw))
			must.NoError(t, err)
			test.Eq(t, tc.want, got, test.Sprint("decoded"))
			test.Eq(t, got, got.DeepCopyObject(), test.Sprint("deep copy differs"))
		})
	}
}

func withMemlock(s string) *HCAConfig {
	return &HCAConfig{TypeMeta: meta(HCAConfigKind), Settings: Settings{Memlock: limit(s)}}
}

// Each error must name what is wrong and what would be right: it reaches the user
// as an event of the pod, far from the manifest.
func TestDecodeErrors(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		want      []string // parts of the message
	}{
		{"nothing", "", []string{"parameters are empty", "rdma.dev/v1alpha1", "HCAConfig or HCAClassConfig"}},
		{"no JSON", "memlock: 1Gi", []string{"json parse error: invalid character"}},
		{"cut off", `{"apiVersion": "rdma.dev/v1alpha1", "kind": "HCA`, []string{"unexpected end of JSON"}},
		{"no kind", `{"apiVersion": "rdma.dev/v1alpha1"}`, []string{"'Kind' is missing",
			"want apiVersion rdma.dev/v1alpha1 and kind HCAConfig or HCAClassConfig"}},
		{"no version", `{"kind": "HCAConfig"}`, []string{"want apiVersion rdma.dev/v1alpha1"}},
		{"other kind", paramsJSON("RDMAConfig", ""), []string{"want apiVersion", `"RDMAConfig"`}},
		{"other version", `{"apiVersion": "rdma.dev/v1", "kind": "HCAConfig"}`,
			[]string{"want apiVersion rdma.dev/v1alpha1", "rdma.dev/v1"}},
		{"other group", `{"apiVersion": "gpu.dev/v1alpha1", "kind": "HCAConfig"}`,
			[]string{"want apiVersion rdma.dev/v1alpha1", "gpu.dev"}},
		{"unknown field", claimJSON(`"memLimit": "1Gi"`), []string{`unknown field "memLimit"`}},
		{"misspelled case", claimJSON(`"MemLock": "1Gi"`), []string{`unknown field "MemLock"`}},
		{"unknown nested field", classJSON(`"allow": {"umad": true}`), []string{`unknown field "allow.umad"`}},
		{"claim field in class", classJSON(`"memlock": "1Gi"`), []string{`unknown field "memlock"`}},
		{"class field in claim", claimJSON(`"allow": {"nodes": ["mad"]}`), []string{`unknown field "allow"`}},
		{"field twice", claimJSON(`"memlock": "1Gi", "memlock": "2Gi"`), []string{`duplicate field "memlock"`}},
		{"memlock bool", claimJSON(`"memlock": true`), []string{"memlock true", "want a string or a number of bytes"}},
		{"memlock list", claimJSON(`"memlock": ["1Gi"]`), []string{"want a string or a number of bytes"}},
		{"memlock word", claimJSON(`"memlock": "infinite"`), []string{"memlock: Invalid value", "infinite",
			"want unlimited, inherit or a positive whole number of bytes such as 4Gi"}},
		{"memlock empty", claimJSON(`"memlock": ""`), []string{"memlock: Invalid value"}},
		{"memlock zero", claimJSON(`"memlock": 0`), []string{"memlock: Invalid value", "positive whole number"}},
		{"memlock negative", claimJSON(`"memlock": -1`), []string{"memlock: Invalid value", "positive whole number"}},
		{"memlock part of a byte", claimJSON(`"memlock": "1500u"`),
			[]string{"memlock: Invalid value", "positive whole number"}},
		{"memlock of a part beyond 18 digits", claimJSON(`"memlock": "1000000000000000.0001k"`),
			[]string{"memlock: Invalid value", "positive whole number"}},
		{"memlock of all bits", claimJSON(`"memlock": 9223372036854775807`),
			[]string{"memlock: Invalid value", "positive whole number"}},
		{"memlock beyond int64", claimJSON(`"memlock": "16Ei"`), []string{"memlock: Invalid value", "positive whole number"}},
		{"nodes word", claimJSON(`"nodes": ["verbs", "umad"]`), []string{`nodes[1]: Unsupported value: "umad"`,
			`"verbs", "cm", "psm", "mad", "sm"`}},
		{"nodes twice", claimJSON(`"nodes": ["verbs", "verbs"]`), []string{`nodes[1]: Duplicate value: "verbs"`}},
		{"nodes string", claimJSON(`"nodes": "verbs"`), []string{"nodes", "cannot unmarshal string"}},
		{"env word", claimJSON(`"env": ["mpi"]`), []string{`env[0]: Unsupported value: "mpi"`,
			`"libfabric", "libfabric-gid-index", "nccl", "nccl-gid-index", "nccl-topology", "nvshmem", "nvshmem-gid-index", ` +
				`"ucx", "ucx-gid-index"`}},
		{"traffic class", claimJSON(`"trafficClass": 256`), []string{"trafficClass: Invalid value: 256: want 0 to 255"}},
		{"service level", claimJSON(`"serviceLevel": -1`), []string{"serviceLevel: Invalid value: -1: want 0 to 15"}},
		{"traffic class in words", claimJSON(`"trafficClass": "af41"`), []string{"trafficClass", "cannot unmarshal string"}},
		{"allowed traffic classes", classJSON(`"allow": {"trafficClasses": [0, 256, 0], "serviceLevels": [16]}`), []string{
			"allow.trafficClasses[1]: Invalid value: 256", "allow.trafficClasses[2]: Duplicate value: 0",
			"allow.serviceLevels[0]: Invalid value: 16"}},
		{
			"a default mark beyond allow",
			classJSON(`"allow": {"serviceLevels": [3]}, "defaults": {"trafficClass": 1, "serviceLevel": 4}`),
			[]string{
				"defaults.trafficClass: Forbidden: 1 is not allowed by the DeviceClass",
				"defaults.serviceLevel: Forbidden: 4",
			},
		},
		{"env twice", claimJSON(`"env": ["ucx", "ucx"]`), []string{`env[1]: Duplicate value: "ucx"`}},
		{"allowed env word", classJSON(`"allow": {"env": ["mpi"]}`), []string{`allow.env[0]: Unsupported value: "mpi"`}},
		{
			"default env beyond allow", classJSON(`"allow": {"env": []}, "defaults": {"env": ["nccl-topology"]}`),
			[]string{"defaults.env[0]: Forbidden: nccl-topology is not allowed by the DeviceClass", "allow.env"},
		},
		{"allowed nodes word", classJSON(`"allow": {"nodes": ["issm"]}`),
			[]string{`allow.nodes[0]: Unsupported value: "issm"`}},
		{"allowed memlock word", classJSON(`"allow": {"memlockMax": "lots"}`), []string{"allow.memlockMax: Invalid value"}},
		{"allowed memlock inherit", classJSON(`"allow": {"memlockMax": "inherit"}`),
			[]string{"allow.memlockMax: Invalid value", "want unlimited or a size in bytes"}},
		{"default nodes word", classJSON(`"defaults": {"nodes": ["x"]}`),
			[]string{`defaults.nodes[0]: Unsupported value: "x"`}},
		{"default memlock word", classJSON(`"defaults": {"memlock": "x"}`), []string{"defaults.memlock: Invalid value"}},
		{"default env word", classJSON(`"defaults": {"env": ["x"]}`), []string{"defaults.env[0]: Unsupported value"}},
		{
			"default nodes beyond allow", classJSON(`"defaults": {"nodes": ["verbs", "mad"]}`),
			[]string{"defaults.nodes[1]: Forbidden: mad nodes are not allowed by the DeviceClass", "allow.nodes"},
		},
		{
			"default memlock beyond allow", classJSON(`"allow": {"memlockMax": "1Gi"}, "defaults": {"memlock": "unlimited"}`),
			[]string{"defaults.memlock: Forbidden: unlimited is more than the DeviceClass allows", "allow.memlockMax 1Gi"},
		},
		{"limits zero", claimJSON(`"limits": {"handles": 0}`), []string{"limits.handles: Invalid value",
			"want a whole number from 1 to 2147483647", "leave the field out"}},
		{"limits negative", claimJSON(`"limits": {"objects": -1}`), []string{"limits.objects: Invalid value"}},
		{"limits of a part", claimJSON(`"limits": {"objects": "1500m"}`), []string{"limits.objects: Invalid value"}},
		{"limits beyond the kernel's", claimJSON(`"limits": {"handles": 2147483648}`),
			[]string{"limits.handles: Invalid value"}},
		{"limits beyond any integer", claimJSON(`"limits": {"handles": "1e100"}`), []string{"limits.handles: Invalid value"}},
		{"limits word", claimJSON(`"limits": {"handles": "many"}`), []string{"quantities must match"}},
		{"limits of another name", claimJSON(`"limits": {"qps": 1}`), []string{`unknown field "limits.qps"`}},
		{"limits max zero", classJSON(`"allow": {"limitsMax": {"objects": 0}}`),
			[]string{"allow.limitsMax.objects: Invalid value"}},
		{
			"default limits beyond allow",
			classJSON(`"allow": {"limitsMax": {"objects": "1k"}}, "defaults": {"limits": {"objects": 1001}}`),
			[]string{"defaults.limits.objects: Forbidden: 1001 is more than the DeviceClass allows",
				"allow.limitsMax.objects 1000"},
		},
		{
			"several at once", claimJSON(`"memlock": "x", "nodes": ["y"], "env": ["z"]`),
			[]string{"memlock: ", "nodes[0]: ", "env[0]: "},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode([]byte(tc.raw))
			must.Error(t, err, must.Sprint("decoded without"))
			for _, part := range tc.want {
				test.StrContains(t, err.Error(), part, test.Sprintf("error does not say %q: %v", part, err))
			}
		})
	}
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
