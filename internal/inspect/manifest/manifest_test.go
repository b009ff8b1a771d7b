package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/manifest"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

// pods returns NAMESPACE/NAME of Of of all pods.
func pods(t *testing.T, r *manifest.Reader) (out []string) {
	t.Helper()
	m, err := r.Manifest()
	must.NoError(t, err)
	for _, p := range m.Pods {
		out = append(out, fmt.Sprintf("%s/%s %s", p.Pod.Namespace, p.Pod.Name, p.Of))
	}
	return out
}

// TestKinds: a pod template is found in an object of any kind, and all else in a file is passed over.
func TestKinds(t *testing.T) {
	const spec = "{containers: [{name: a, image: b}]}"
	for object, want := range map[string]string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: " + spec:                                                           "default/p ",
		"apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-, namespace: n}\nspec: " + spec:                                    "n/p-xxxxx ",
		"apiVersion: v1\nkind: PodTemplate\nmetadata: {name: p}\ntemplate: {spec: " + spec + "}":                                  "default/p PodTemplate/p",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: " + spec + "}}":                      "default/d Deployment/d",
		"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {jobTemplate: {spec: {template: {spec: " + spec + "}}}}": "default/c CronJob/c",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {template: {spec: " +
			spec + "}}}]": "default/s StatefulSet/s",
		"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: j}\nspec: {replicatedJobs: [{template: {spec: {template: {spec: " +
			spec + "}}}}]}": "default/j JobSet/j (spec.replicatedJobs[0].template.spec.template)",
		`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}`: "default/j Job/j",
	} {
		r := &manifest.Reader{Namespace: "default"}
		const others = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {clusterIP: None}\n---\n# nothing\n---\n"
		if err := r.Read([]byte(others + object)); err != nil {
			t.Errorf("%s: %v", object, err)
		} else if got := pods(t, r); !slices.Equal(got, []string{want}) || len(r.Warnings) > 0 {
			t.Errorf("%s: pods %q, warnings %q; want %q", object, got, r.Warnings, want)
		}
	}
}

// TestExamples: the project's own manifests are read whole and without a warning, and all but those without pods have
// some.
func TestExamples(t *testing.T) {
	var files []string
	for _, dir := range []string{"", "jobs", "rails-gpu"} {
		found, err := filepath.Glob(filepath.Join("../../../examples", dir, "*.yaml"))
		must.NoError(t, err)
		files = append(files, found...)
	}
	with := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.NoError(t, err)
		if !strings.Contains(string(data), "apiVersion: ") { // values of the chart
			continue
		}
		r := &manifest.Reader{Namespace: "default"}
		if err := r.Read(data); err != nil || len(r.Warnings) > 0 {
			t.Errorf("%s: %v, warnings %q", file, err, r.Warnings)
			continue
		}
		if _, err := r.Manifest(); (err == nil) != strings.Contains(string(data), "containers:") {
			t.Errorf("%s: %v", file, err)
		} else if err == nil {
			with++
		}
	}
	test.GreaterEq(t, 15, with, test.Sprintf("%d of %d files have pods", with, len(files)))
}

// TestRailsRefused: a request that a selector of rails cannot bind is an error, and so is a text that cannot be changed.
func TestRailsRefused(t *testing.T) {
	f := fleet.New(t)
	f.Node("node1", "hgx-h100", "rules:\n- {name: storage, publish: none, "+
		"selectors: [{cel: {expression: '!has("+fleet.RDMA+".pcieSwitch)'}}]}\n"+
		"- {name: compute, publish: shared, shares: 4, rails: 8}\n")
	f.Node("node2", "roce-sriov", "rules:\n- {name: all, rails: 2}\n")
	l := f.Lists()
	for exactly, want := range map[string]string{
		"{deviceClassName: shared.hca.rdma.dev, count: 2}":                                                  `node "node1" has several devices or shares for it on one rail`,
		"{deviceClassName: vf.hca.rdma.dev, count: 2}":                                                      `node "node2" has several devices or shares for it on one rail`,
		"{deviceClassName: hca.rdma.dev, count: 9}":                                                         "a pod asks for 9 HCAs",
		"{deviceClassName: hca.rdma.dev, count: 3}":                                                         "no node publishes 3 HCAs for it",
		"{deviceClassName: none}":                                                                           `DeviceClass "none": the class does not exist`,
		"{deviceClassName: hca.rdma.dev, selectors: [{cel: {expression: 'has(" + fleet.RDMA + ".rail)'}}]}": "selects rails already",
		"&a {deviceClassName: hca.rdma.dev}}, {name: b, exactly: *a":                                        "without aliases",
		"{deviceClassName: shared.hca.rdma.dev}":                                                            "",
	} {
		r := &manifest.Reader{Namespace: "default"}
		must.NoError(t, r.Read([]byte("apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: t}\n"+
			"spec: {spec: {devices: {requests: [{name: a, exactly: "+exactly+"}]}}}\n---\napiVersion: v1\nkind: Pod\n"+
			"metadata: {name: p}\nspec: {containers: [{name: a}], resourceClaims: [{name: a, resourceClaimTemplateName: t}]}\n")))
		m, err := r.Manifest()
		must.NoError(t, err)
		c := &model.Cluster{Slices: l.Slices, Classes: l.Classes}
		if _, err = m.SetRails(t.Context(), c.View(), nil); err == nil {
			_, err = r.Write()
		}
		if want == "" {
			test.NoError(t, err, test.Sprint(exactly))
		} else {
			test.ErrorContains(t, err, want, test.Sprint(exactly))
		}
	}
}

// TestDefaults: what the API server would set is set, since the allocator sees it.
func TestDefaults(t *testing.T) {
	r := &manifest.Reader{Namespace: "default"}
	if err := r.Read([]byte(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: a, resources: {limits: {rdma/hca: 2, cpu: 4}, requests: {cpu: 1}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
    - {name: one, exactly: {deviceClassName: x, tolerations: [{key: k, value: v}]}}
    - {name: all, exactly: {deviceClassName: x, allocationMode: All}}
    - {name: any, firstAvailable: [{name: a, deviceClassName: x}]}
`)); err != nil {
		t.Fatal(err)
	}
	m, err := r.Manifest()
	must.NoError(t, err)
	requests := m.Pods[0].Pod.Spec.Containers[0].Resources.Requests
	if hca, cpu := requests["rdma/hca"], requests["cpu"]; hca.Value() != 2 || cpu.Value() != 1 {
		t.Errorf("requests %v", requests)
	}
	got := m.Claims[0].Spec.Devices.Requests
	if one := got[0].Exactly; one.AllocationMode != "ExactCount" || one.Count != 1 ||
		one.Tolerations[0].Operator != "Equal" {
		t.Errorf("one: %+v", one)
	}
	if all := got[1].Exactly; all.AllocationMode != "All" || all.Count != 0 {
		t.Errorf("all: %+v", all)
	}
	if any := got[2].FirstAvailable[0]; any.AllocationMode != "ExactCount" || any.Count != 1 {
		t.Errorf("any: %+v", any)
	}
}

// TestRefused: an error names the document, the object and the field.
func TestRefused(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for file, want := range map[string]string{
		"":                             "there is no pod, and no object with a pod template",
		"apiVersion: v1\nkind: Secret": "there is no pod, and no object with a pod template",
		"a: 1":                         "document 1: it has no apiVersion or no kind",
		"kind: List":                   "document 1: it has no apiVersion or no kind",
		"[a]":                          "document 1: it is no object of Kubernetes",
		pod + "---\nkind: [":           "line 5: did not find expected node content",
		pod + "spec: {containers: no}": `document 1: "Pod/p": spec.containers: it cannot be a string`,
		pod + "spec: " + deep:          "nested more than 64 deep",
		pod + "spec: {1: 2}":           "document 1: a key is no text",
		pod + "metadata: {name: q}":    "already defined",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: other}": `"Pod/p": it is in namespace "other", and --namespace says "mine"`,
		"apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}": "it has apiVersion resource.k8s.io/v1beta1, and " +
			"kubectl rdma reads resource.k8s.io/v1",
		"apiVersion: v1\nkind: PodList\nitems: [{apiVersion: v1, kind: Pod, metadata: 1}]": "document 1: items[0]: it is no object of Kubernetes: metadata: it cannot be a number",
	} {
		r := &manifest.Reader{Namespace: "mine", Only: true}
		err := r.Read([]byte(file))
		if err == nil {
			_, err = r.Manifest()
		}
		test.ErrorContains(t, err, want, test.Sprintf("%s", file))
	}
	r := &manifest.Reader{Namespace: "mine"}
	if err := r.Read([]byte(pod + "spec: {resourceClaim: []}")); err != nil || len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0], `Pod/p: unknown field "spec.resourceClaim"`) {
		t.Errorf("a field that nobody knows: %v, %q", err, r.Warnings)
	}
	many := strings.Repeat("---\na: [1, 2, 3, 4, 5, 6, 7, 8, 9]\n", manifest.Limits.Values/10)
	test.ErrorContains(t, r.Read([]byte(many)), "it has more than 500000 keys and values",
		test.Sprint("many documents"))
}

// FuzzRead: no file makes it panic, and what it takes can be asked about.
func FuzzRead(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a}], resourceClaims: [{name: a, resourceClaimTemplateName: t}]}"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		r := &manifest.Reader{Namespace: "n"}
		if r.Read(data) != nil {
			return
		}
		if m, err := r.Manifest(); err == nil {
			for i := range m.Pods {
				m.Question(&m.Pods[i], nil)
			}
		}
	})
}
