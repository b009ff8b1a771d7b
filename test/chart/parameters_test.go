package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/pkg/api/v1alpha1"
)

// judge is a policy of the chart, compiled and evaluated by the API server's own code.
type judge struct {
	validating.Validator
}

func newJudge(t *testing.T, name string) judge {
	t.Helper()
	for _, p := range all[*admissionv1.ValidatingAdmissionPolicy](t) {
		if p.Name == name {
			return judge{compile(t, p)}
		}
	}
	t.Fatalf("no policy %s", name)
	return judge{}
}

// compile does what the API server does with a policy (compilePolicy, which it keeps to
// itself), for Kubernetes of the oldest version.
func compile(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	var conditions, messages []cel.ExpressionAccessor
	for _, v := range p.Spec.Validations {
		conditions = append(conditions, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, nil)
		if v.MessageExpression != "" {
			messages[len(messages)-1] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	compiler.CompileAndStoreVariables(variables, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	condition := func(e []cel.ExpressionAccessor) cel.ConditionEvaluator {
		return compiler.CompileCondition(e, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	}
	return validating.NewValidator(condition(conditions), nil, condition(nil), condition(messages), p.Spec.FailurePolicy, nil)
}

// refusal returns what a policy says to an object, "" if it admits it.
func (j judge) refusal(t *testing.T, object *unstructured.Unstructured, resource string) string {
	t.Helper()
	gvk := object.GroupVersionKind()
	gvr := gvk.GroupVersion().WithResource(resource)
	attributes := admission.NewAttributesRecord(object, nil, gvk, "", object.GetName(), gvr, "", admission.Create, &metav1.CreateOptions{}, false, nil)
	result := j.Validate(context.Background(), gvr, &admission.VersionedAttributes{Attributes: attributes, VersionedObject: object, VersionedKind: gvk}, nil, nil, celconfig.RuntimeCELCostBudget, nil)
	for _, d := range result.Decisions {
		if d.Evaluation == validating.EvalError {
			t.Errorf("the policy fails: %s", d.Message)
		}
		if d.Action == validating.ActionDeny {
			return d.Message
		}
	}
	return ""
}

// carrier puts parameters into an object of the API.
type carrier struct {
	policy, resource, kind, config string
}

var (
	inClaim    = carrier{"claim-parameters.rdma.dev", "resourceclaims", v1alpha1.HCAConfigKind, `{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": {"config": %s}}}`}
	inTemplate = carrier{"claim-parameters.rdma.dev", "resourceclaimtemplates", v1alpha1.HCAConfigKind, `{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": {"spec": {"devices": {"config": %s}}}}`}
	inClass    = carrier{"class-parameters.rdma.dev", "deviceclasses", v1alpha1.HCAClassConfigKind, `{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {"config": %s}}`}
)

func (c carrier) with(t *testing.T, parameters string) *unstructured.Unstructured {
	t.Helper()
	config := `[{"opaque": {"driver": "gpu.example.com", "parameters": {"memlock": []}}}, {"opaque": {"driver": "rdma.dev", "parameters": ` + parameters + `}}]`
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(fmt.Appendf(nil, c.config, config)); err != nil {
		t.Fatalf("%v in %s", err, parameters)
	}
	return object
}

// TestParameters: what is wrong with parameters is said when their object is made, with
// the name of the field.
func TestParameters(t *testing.T) {
	for _, tc := range []struct{ in, fields, want string }{
		{"claim", "", ""},
		{"claim", "memlock: 4Gi\nnodes: [verbs, cm]\nenv: [nccl, ucx]\nlimits: {handles: 64, objects: 1M}", ""},
		{"claim", "memlock: 65536\nnodes: null\nlimits: {handles: null}", ""},
		{"claim", "memlock: 1.5Gi", ""},
		{"claim", "memLock: 4Gi", "unknown field memLock, want one of apiVersion, kind, memlock"},
		{"claim", "allow: {nodes: [mad]}", "unknown field allow"},
		{"claim", "kind: HCAClassConfig", "want apiVersion rdma.dev/v1alpha1 and kind HCAConfig"},
		{"claim", "apiVersion: rdma.dev/v1", "want apiVersion rdma.dev/v1alpha1 and kind HCAConfig"},
		{"claim", "memlock: lots", "memlock: want unlimited, inherit or"},
		{"claim", "memlock: 0", "memlock: want"},
		{"claim", "memlock: 1500m", "memlock: want"},
		{"claim", "memlock: [4Gi]", "memlock: want"},
		{"claim", "nodes: [verbs, umad]", "nodes: want a list of verbs, cm, mad, sm"},
		{"claim", "nodes: verbs", "nodes: want a list"},
		{"claim", "nodes: [cm, cm]", "nodes: want a list of verbs, cm, mad, sm, each at most once"},
		{"claim", "env: [mpi]", "env: want a list of nccl, ucx"},
		{"claim", "limits: 8", "limits: want an object"},
		{"claim", "limits: {qps: 8}", "unknown field limits.qps"},
		{"claim", "limits: {handles: 0}", "limits: want whole numbers from 1"},
		{"class", "", ""},
		{"class", "allow: {nodes: [verbs, mad], memlockMax: 8Gi, limitsMax: {handles: 8}}\ndefaults: {memlock: inherit, nodes: [mad], env: [ucx], limits: {objects: 1k}}", ""},
		{"class", "allow: null\ndefaults: null", ""},
		{"class", "memlock: 4Gi", "unknown field memlock, want one of apiVersion, kind, allow, defaults"},
		{"class", "kind: HCAConfig", "want apiVersion rdma.dev/v1alpha1 and kind HCAClassConfig"},
		{"class", "allow: [mad]", "allow and defaults: want an object"},
		{"class", "allow: {memlockMax: inherit}", "allow.memlockMax: want unlimited or"},
		{"class", "allow: {nodes: [issm]}", "allow.nodes: want a list"},
		{"class", "allow: {umad: true}", "unknown field allow.umad"},
		{"class", "allow: {limitsMax: {objects: many}}", "allow.limitsMax: want whole numbers"},
		{"class", "defaults: {allow: 1}", "unknown field defaults.allow"},
		{"class", "defaults: {memlock: x}", "defaults.memlock: want"},
		{"class", "defaults: {limits: {qps: 1}}", "unknown field defaults.limits.qps"},
		{"class", "defaults: {nodes: [mad]}", "defaults.nodes: more than allow.nodes allows"},
	} {
		carriers := []carrier{inClaim, inTemplate}
		if tc.in == "class" {
			carriers = []carrier{inClass}
		}
		for _, c := range carriers {
			parameters := map[string]any{}
			if err := yaml.Unmarshal([]byte("apiVersion: rdma.dev/v1alpha1\nkind: "+c.kind), &parameters); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(tc.fields), &parameters); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(parameters)
			if err != nil {
				t.Fatal(err)
			}
			got := newJudge(t, c.policy).refusal(t, c.with(t, string(raw)), c.resource)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s with %s: policy says %q, want %q", c.resource, raw, got, tc.want)
			}
			if _, err := v1alpha1.Decode(raw); (err == nil) != (tc.want == "") && parameters["kind"] == c.kind {
				t.Errorf("%s: the driver says %v", raw, err)
			}
		}
	}
}

// TestParametersAgree: the policies refuse what the driver refuses, and nothing that it
// accepts, over random parameters in which about one value in four is bad.
func TestParametersAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []carrier{inClaim, inTemplate, inClass} {
		j := newJudge(t, c.policy)
		accepted := 0
		for range 1000 {
			raw := randomParameters(random, c.kind)
			_, err := v1alpha1.Decode([]byte(raw))
			got := j.refusal(t, c.with(t, raw), c.resource)
			if err == nil {
				accepted++
			}
			if (err == nil) != (got == "") && (err == nil || !strings.Contains(err.Error(), "more than the DeviceClass allows")) {
				t.Errorf("%s\n  driver: %v\n  policy: %s", raw, err, got)
			}
		}
		if accepted < 100 || accepted > 900 {
			t.Errorf("%s: %d of 1000 are good, which tells little", c.resource, accepted)
		}
	}
}

// randomParameters makes parameters of a kind from good and bad parts.
func randomParameters(random *rand.Rand, kind string) string {
	pick := func(good []string, bad ...string) string {
		if random.IntN(12) == 0 {
			return bad[random.IntN(len(bad))]
		}
		return good[random.IntN(len(good))]
	}
	object := func(fields ...string) string {
		var kept []string
		for _, f := range fields {
			if random.IntN(2) == 0 {
				kept = append(kept, f)
			}
		}
		if random.IntN(40) == 0 {
			kept = append(kept, `"mtu": 1`)
		}
		return "{" + strings.Join(kept, ", ") + "}"
	}
	number := func() string {
		return pick([]string{`1`, `64`, `"1k"`, `"1Mi"`, `2e3`, `null`, `2147483647`}, `0`, `-1`, `"x"`, `""`, `1.5`, `"1500m"`, `[]`, `true`, `2147483648`, `"1e100"`, `{}`)
	}
	limits := func() string {
		return pick([]string{object(`"handles": `+number(), `"objects": `+number()), `null`}, `8`, `"8"`, `[]`)
	}
	nodes := func() string {
		return pick([]string{`["verbs"]`, `["verbs", "cm"]`, `[]`, `null`, `["cm"]`, `["mad", "verbs"]`}, `["umad"]`, `"verbs"`, `["cm", "cm"]`, `[1]`, `[null]`, `{}`, `true`)
	}
	memlock := func() string {
		return pick([]string{`"unlimited"`, `"4Gi"`, `65536`, `1e9`, `null`, `"1.5Gi"`, `9223372036854775807`}, `""`, `0`, `-5`, `1.25`, `"1500m"`, `"16Ei"`, `true`, `{}`, `[1]`, `"lots"`, `1e300`)
	}
	settings := func() string {
		return object(`"memlock": `+memlock(), `"nodes": `+nodes(), `"env": `+pick([]string{`["nccl"]`, `["ucx", "nccl"]`, `null`}, `["mpi"]`, `["ucx", "ucx"]`, `"ucx"`, `[2]`), `"limits": `+limits())
	}
	meta := `"apiVersion": "` + pick([]string{"rdma.dev/v1alpha1"}, "rdma.dev/v1", "") + `", "kind": "` + pick([]string{kind}, "Config", "") + `"`
	rest := settings()
	if kind == v1alpha1.HCAClassConfigKind {
		allow := object(`"nodes": `+nodes(), `"memlockMax": `+memlock(), `"limitsMax": `+limits())
		rest = object(`"allow": `+pick([]string{allow, `null`}, `[]`, `"all"`), `"defaults": `+pick([]string{rest, `null`}, `7`, `[]`))
	}
	if rest = strings.TrimPrefix(rest, "{"); rest != "}" {
		return "{" + meta + ", " + rest
	}
	return "{" + meta + rest
}

