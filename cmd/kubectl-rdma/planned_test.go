package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/controlplane"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/golden"
)

const examples = "../../examples/"

// write writes a file of a test, and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pod.yaml")
	must.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// railsGPU is a cluster for the example of docs/nccl.md, without its class.
func railsGPU(t *testing.T) *fleet.Fleet {
	f := fleet.New(t)
	f.Class("gpu.nvidia.com", `device.driver == "`+fleet.GPUDriver+`"`)
	f.Node("node1", "hgx-h100", `rules:
- name: storage
  publish: shared
  selectors: [{cel: {expression: '!has(`+fleet.RDMA+`.pcieSwitch)'}}]
- {name: compute, rails: 8}
`)
	return f
}

// TestPlanned: a job that nobody has created, with its templates and class in files, fits if its devices are free.
func TestPlanned(t *testing.T) {
	idle := newSession(t, railsGPU(t))
	job := []string{"why", "-f", examples + "rails-gpu/job.yaml", "-f", examples + "rails-gpu/pairs.yaml"}
	all := append(job, "-f", examples+"rails-gpu/class.yaml")
	test.StrHasPrefix(t, "Pod default/rails-gpu of Job/rails-gpu is Planned: its claims fit, now on node node1.\n", idle.ok(all...),
		test.Sprint("the idle cluster"))
	short := func(s *session, args ...string) string {
		t.Helper()
		r := s.run(args...)
		if r.code != exitError || r.stderr != "error: 1 of 1 pod would not get their devices now, or nobody can tell\n" {
			t.Errorf("kubectl rdma %s: exit code %d, %s", strings.Join(args, " "), r.code, r.stderr)
		}
		return r.stdout
	}
	test.StrContains(t, short(idle, job...), "DeviceClass rail.hca.example.com, of request hca0, does not exist",
		test.Sprint("without the class"))
	test.StrContains(t, short(idle, append([]string{"why", "-f", examples + "rails-gpu/class.yaml"}, job[1:3]...)...), "ResourceClaimTemplate rails-gpu, the template of claim pairs, does not exist in namespace default",
		test.Sprint("without the templates"))
	busy := railsGPU(t)
	busy.Allocate("node1", "other", controlplane.Claim(controlplane.Want("nic", "hca.rdma.dev", fleet.RDMA+".?rail.orValue(-1) == 3")))
	golden.Bytes(t, "planned.txt", []byte(short(newSession(t, busy), all...)))
	const verdicts = `-o=jsonpath={.kind} {.items[*].phase} {.items[*].of} {.items[*].verdict}`
	test.Eq(t, "ExplanationList Planned Job/rails-gpu unallocated", short(newSession(t, busy), append(all, verdicts)...),
		test.Sprint("for programs"))
}

const twoPods = `apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers: [{name: main, image: none}]
  resourceClaims: [{name: nics, resourceClaimTemplateName: one-nic}, {name: had, resourceClaimName: nics}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: many, namespace: default}
spec:
  template:
    spec:
      containers: [{name: main, image: none}]
      resourceClaims: [{name: nics, resourceClaimTemplateName: many-nics}]
---
apiVersion: example.com/v1
kind: Server
metadata: {name: bare}
spec:
  replicas: 2
  worker:
    model: none
    containers: [{name: main, image: none, resources: {claims: [{name: nics}]}}]
    resourceClaims: [{name: nics, resourceClaimTemplateName: many-nics}]
---
apiVersion: example.com/v1
kind: Sidecar
metadata: {name: s}
spec: {containers: [none]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: none}
spec: {template: {spec: {containers: [{name: main, image: none}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: many-nics}
spec: {spec: {devices: {requests: [{name: nics, exactly: {deviceClassName: hca.rdma.dev, count: 9}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: nics}
spec: {devices: {requests: [{name: nics, exactly: {deviceClassName: none}}]}}
`

// TestPlannedParts: each pod of standard input is answered, with templates and claims of the cluster. A claim of the
// cluster stays what it is, whatever the file says. Nothing is asked for that the pods do not need.
func TestPlannedParts(t *testing.T) {
	f, _ := fleet.Short(t)
	template := resourceapi.ResourceClaimTemplate{}
	template.Namespace, template.Name = "default", "one-nic"
	template.Spec.Spec.Devices = controlplane.Claim(controlplane.Want("nic", "hca.rdma.dev"))
	f.Templates = append(f.Templates, template)
	s := newSession(t, f)
	ask := func(args ...string) result {
		s.server.Asked = nil
		var stdout, stderr bytes.Buffer
		args = append([]string{"why", "-f", "-", "--kubeconfig=" + s.kubeconfig}, args...)
		code := run(t.Context(), args, strings.NewReader(twoPods), &stdout, &stderr)
		return result{code, stdout.String(), stderr.String()}
	}
	r := ask()
	if r.code != exitError || !strings.HasSuffix(r.stderr, "error: 3 of 4 pods would not get their devices now, or nobody can tell\n") ||
		!strings.HasPrefix(r.stderr, "Warning: Sidecar/s: spec has containers, and is passed over, since it is no spec of a pod: ") {
		t.Fatalf("%+v", r)
	}
	golden.Bytes(t, "planned-parts.txt", []byte(r.stdout))
	const want = "list resourceslices; list deviceclasses; list devicetaintrules; list resourceclaims; list nodes; list pods; " +
		"get default/resourceclaimtemplates/one-nic"
	test.Eq(t, want, strings.Join(s.server.Asked, "; "), test.Sprint("it asks"))
	if r := ask("-n", "fabric"); r.code != exitError || !strings.Contains(r.stderr,
		`read the pods of "-": document 2: "StatefulSet/many": it is in namespace "default", and --namespace says "fabric"`) {
		t.Errorf("of another namespace: %+v", r)
	}
	s.server.Forbidden = []string{"default/resourceclaimtemplates/one-nic", "default/resourceclaimtemplates"}
	if r := ask(); r.code != exitError ||
		!strings.Contains(r.stderr, "get ResourceClaimTemplate default/one-nic, which the file lacks: ") {
		t.Errorf("without the right to read templates: %+v", r)
	}
}

// TestPlannedErrors: the error names the file, and no request is sent.
func TestPlannedErrors(t *testing.T) {
	s := newSession(t, fleet.New(t))
	service := write(t, "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
	for args, want := range map[string]string{
		"why -f " + service:             `error: read the pods of "` + service + `": there is no pod, and no object with a pod template or containers`,
		"why -f none.yaml":              `error: read the pods of "none.yaml": `,
		"why -f " + t.TempDir():         "not a regular file",
		"why trainer -f " + service:     "error: explain pod trainer: name a pod of the cluster, or a file by -f",
		"why -f " + write(t, "a: [1"):   "line 1: did not find expected",
		"why -f " + write(t, "kind: x"): "document 1: it has no apiVersion or no kind",
	} {
		r := s.run(strings.Fields(args)...)
		if r.code != exitError || r.stdout != "" || !strings.Contains(r.stderr, want) || len(s.server.Asked) > 0 {
			t.Errorf("kubectl rdma %s: %+v after %q, want %q", args, r, s.server.Asked, want)
		}
	}
	unknown := write(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {resourceClaim: [], containers: []}\n")
	if r := s.run("why", "-f", unknown); r.code != exitOK ||
		r.stderr != "Warning: Pod/p: unknown field \"spec.resourceClaim\"\n" {
		t.Errorf("an unknown field: %+v", r)
	}
}
