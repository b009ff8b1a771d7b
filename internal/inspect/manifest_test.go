package inspect_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/manifest"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/why"
)

// TestPlannedInput: a pod of a manifest gets the answer that it gets when it exists, for everything at which the
// scheduler looks. The rows about what happened to an existing claim have no planned form.
func TestPlannedInput(t *testing.T) {
	asked := 0
	for _, r := range inputRows(t) {
		for _, in := range []*input{newInput(t, r.Waits), newInput(t, r.Waits, r.Fits)} {
			r.feature(in, true)
			m, ok := in.manifest()
			if !ok {
				continue
			}
			asked++
			_, want := in.why(t)
			in.Claims = slices.DeleteFunc(in.Claims, func(c resourceapi.ResourceClaim) bool { return c.Name == "claim" })
			m.AddTo(&in.Cluster)
			q := m.Question(&m.Pods[0], nil)
			got, err := why.Explain(context.Background(), &in.Cluster, q)
			must.NoError(t, err)
			// What it is called differs.
			if got.Phase != "Planned" || got.Of != "Job/run" || core(t, got) != core(t, want) {
				t.Errorf("%s: planned:\n%s\nwhen it exists:\n%s", r.Name, core(t, got), core(t, want))
			}
		}
	}
	test.GreaterEq(t, 100, asked, test.Sprintf("%d rows were asked", asked))
}

// manifest returns the pod of the input as one of a manifest, with a template of its claim. It reports whether that
// says the same.
func (in *input) manifest() (*manifest.Manifest, bool) {
	if len(in.Pod.Spec.ResourceClaims) != 1 || len(in.Claims) == 0 {
		return nil, false
	}
	claim := in.Claims[0]
	if ref := in.Pod.Spec.ResourceClaims[0]; ptr.Deref(ref.ResourceClaimName, "") != claim.Name || claim.Name != "claim" ||
		len(claim.Status.ReservedFor) > 0 || claim.Status.Allocation != nil || claim.DeletionTimestamp != nil {
		return nil, false
	}
	template := resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claim.Spec}}
	template.Namespace, template.Name = claim.Namespace, "of-claim"
	pod := *in.Pod.DeepCopy()
	ref := &pod.Spec.ResourceClaims[0]
	ref.ResourceClaimName, ref.ResourceClaimTemplateName = nil, new("of-claim")
	return &manifest.Manifest{
		Pods: []manifest.PlannedPod{{Of: "Job/run", Pod: pod}}, Templates: []resourceapi.ResourceClaimTemplate{template},
	}, true
}

// core is an answer without the names of pod and claim, and without the words for what is not allocated.
func core(t *testing.T, a *why.Answer) string {
	t.Helper()
	b := *a
	b.Of, b.Phase = "", ""
	if b.Verdict == why.VerdictSchedulable {
		b.Summary = ""
	}
	text, err := json.MarshalIndent(b, "", " ")
	must.NoError(t, err)
	return strings.ReplaceAll(string(text), "pod-claim-xxxxx", "claim")
}
