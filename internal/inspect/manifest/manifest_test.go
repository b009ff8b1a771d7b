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
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
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
	const replicated = "{replicatedJobs: [{template: {spec: {template: {spec: " + spec + "}}}}]}"
	for _, row := range [][2]string{
		{"default/p ", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: " + spec},
		{"n/p-xxxxx ", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-, namespace: n}\nspec: " + spec},
		{"default/p PodTemplate/p", "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: p}\ntemplate: {spec: " + spec + "}"},
		{"default/d Deployment/d", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n" +
			"spec: {template: {spec: " + spec + "}}"},
		{"default/c CronJob/c", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\n" +
			"spec: {jobTemplate: {spec: {template: {spec: " + spec + "}}}}"},
		{"default/s StatefulSet/s", "apiVersion: v1\nkind: List\n" +
			"items: [{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {template: {spec: " + spec + "}}}]"},
		{"default/j JobSet/j (spec.replicatedJobs[0].template.spec.template)",
			"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: j}\nspec: " + replicated},
		{"default/j Job/j", `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, ` +
			`"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}`},
	} {
		want, object := row[0], row[1]
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

// setRails sets the rails of pods with a template each, whose only request is one of exactly.
func setRails(t *testing.T, c *model.Cluster, only []int64, exactly ...string) error {
	t.Helper()
	var file strings.Builder
	for i, request := range exactly {
		fmt.Fprintf(&file, `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t%[1]d}
spec: {spec: {devices: {requests: [{name: a, exactly: %[2]s}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p%[1]d}
spec: {containers: [{name: a}], resourceClaims: [{name: a, resourceClaimTemplateName: t%[1]d}]}
---
`, i, request)
	}
	r := &manifest.Reader{Namespace: "default"}
	must.NoError(t, r.Read([]byte(file.String())))
	m, err := r.Manifest()
	must.NoError(t, err)
	if _, err = m.SetRails(t.Context(), c.View(), only); err == nil {
		_, err = r.Write()
	}
	return err
}

const storage = "rules:\n- {name: storage, publish: none, selectors: [{cel: {expression: '!has(" + fleet.RDMA +
	".pcieSwitch)'}}]}\n"

// TestRailsRefused: a request that a selector of rails cannot bind is an error, and so is a text that cannot be
// changed.
func TestRailsRefused(t *testing.T) {
	f := fleet.New(t)
	f.Node("node1", "hgx-h100", storage+"- {name: compute, publish: shared, shares: 4, rails: 8}\n")
	f.Node("node2", "roce-sriov", "rules:\n- {name: all, rails: 2}\n")
	l := f.Lists()
	c := &model.Cluster{Slices: l.Slices, Classes: l.Classes}
	selects := func(expression string) string {
		return "{deviceClassName: shared.hca.rdma.dev, selectors: [{cel: {expression: '" + expression + "'}}]}"
	}
	for _, row := range [][2]string{
		{`node "node1" has several devices or shares for it on one rail`, "{deviceClassName: shared.hca.rdma.dev, count: 2}"},
		{`node "node2" has several devices or shares for it on one rail`, "{deviceClassName: vf.hca.rdma.dev, count: 2}"},
		{"a pod asks for 9 HCAs", "{deviceClassName: hca.rdma.dev, count: 9}"},
		{"no node publishes 3 HCAs for it", "{deviceClassName: hca.rdma.dev, count: 3}"},
		{`DeviceClass "none": the class does not exist`, "{deviceClassName: none}"},
		{"selects rails already", selects("has(" + fleet.RDMA + ".rail)")},
		{"without aliases", "&a {deviceClassName: hca.rdma.dev}}, {name: b, exactly: *a"},
		{"", "{deviceClassName: shared.hca.rdma.dev}"},
		{"", selects("!has(" + fleet.RDMA + ".guardrail)")}, // another attribute
	} {
		err := setRails(t, c, nil, row[1])
		if row[0] == "" {
			test.NoError(t, err, test.Sprint(row[1]))
		} else {
			test.ErrorContains(t, err, row[0], test.Sprint(row[1]))
		}
	}
	for range 10 {
		test.ErrorContains(t, setRails(t, c, nil, "{deviceClassName: none}", "{deviceClassName: lacking}"),
			`ResourceClaimTemplate "t0"`, test.Sprint("of two faults, the first is named"))
	}
}

// TestRailTwice: two HCAs of a node on one rail are no two rails, whatever the other nodes have.
func TestRailTwice(t *testing.T) {
	f := fleet.New(t)
	for _, node := range []string{"node1", "node2"} {
		f.Node(node, "hgx-h100", storage+"- {name: compute, rails: 8}\n")
	}
	l := f.Lists()
	c := &model.Cluster{Slices: l.Slices, Classes: l.Classes}
	const two = "{deviceClassName: hca.rdma.dev, count: 2}"
	must.NoError(t, setRails(t, c, []int64{0, 1}, two))
	for _, s := range l.Slices {
		for _, d := range s.Spec.Devices {
			if rail := d.Attributes[rdma.AttributeRail].IntValue; *s.Spec.NodeName == "node2" && rail != nil && *rail == 1 {
				*rail = 0
			}
		}
	}
	test.ErrorContains(t, setRails(t, c, []int64{0, 1}, two), `node "node2" has several devices or shares for it on one`)
}

// TestRailsUnseen: who may not read the claims of others is told no rails as those that the fewest have.
func TestRailsUnseen(t *testing.T) {
	f := fleet.New(t)
	f.Node("node1", "hgx-h100", storage+"- {name: compute, rails: 8}\n")
	l := f.Lists()
	c := &model.Cluster{Slices: l.Slices, Classes: l.Classes, Unread: model.UnreadKinds{{Kind: model.Claims}}}
	const two = "{deviceClassName: hca.rdma.dev, count: 2}"
	test.ErrorContains(t, setRails(t, c, nil, two), "name 2 by --rails")
	test.ErrorContains(t, setRails(t, c, []int64{0, 1, 2, 3}, two), "name 2 by --rails")
	test.NoError(t, setRails(t, c, []int64{4, 5}, two))
}

// TestRailsBeside: the encoder folds some texts in another way. Then nothing is written for kubectl apply.
func TestRailsBeside(t *testing.T) {
	r := &manifest.Reader{Namespace: "default"}
	must.NoError(t, r.Read([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"+
		"data:\n  a: >\n    one\n      two\n    three\n")))
	_, err := r.Write()
	test.ErrorContains(t, err, "would say something else when written again")
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
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: other}": `"Pod/p": it is in namespace "other", and ` +
			`--namespace says "mine"`,
		"apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}": "it has apiVersion " +
			"resource.k8s.io/v1beta1, and kubectl rdma reads resource.k8s.io/v1",
		"apiVersion: v1\nkind: PodList\nitems: [{apiVersion: v1, kind: Pod, metadata: 1}]": "document 1: items[0]: it is " +
			"no object of Kubernetes: metadata: it cannot be a number",
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
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n" +
		"spec: {containers: [{name: a}], resourceClaims: [{name: a, resourceClaimTemplateName: t}]}"))
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
