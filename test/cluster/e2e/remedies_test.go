package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/deploy"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// stuck is a pod that does not run, and the remedy that kubectl rdma why has for it.
type stuck struct {
	name string
	// spec is of the pod; container of its container; source is its claim's, by default the claim that all of them share.
	spec, container, source string
	verdict, reason         string
	says                    string // in the first line
	status                  string // in the pod's line of kubectl rdma status
	remedy                  func(n *testbed.Namespace, pod string)
	// again marks a pod that its remedy creates again.
	again bool
}

func apply(manifest string) func(*testbed.Namespace, string) {
	return func(n *testbed.Namespace, _ string) { n.Apply(manifest) }
}

func patch(kind, text string) func(*testbed.Namespace, string) {
	return func(n *testbed.Namespace, pod string) { n.Kubectl("patch", "pod", pod, "--type="+kind, "-p", text) }
}

const noHandler = "no-handler.example.com"

var stuckPods = []stuck{
	{
		name: "sandbox", spec: "runtimeClassName: " + noHandler, verdict: "unprepared", reason: "SandboxFailed",
		says: "no-such-runtime", status: "no-such-runtime", again: true,
	},
	{
		name: "volume", spec: "volumes: [{name: v, configMap: {name: settings}}]",
		container: "volumeMounts: [{name: v, mountPath: /settings}]",
		verdict:   "unprepared", reason: "VolumeFailed", says: "configmap 'settings' not found", status: "settings",
		remedy: apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"),
	},
	{
		name: "secret", container: "env: [{name: A, valueFrom: {secretKeyRef: {name: words, key: a}}}]",
		verdict: "unprepared", reason: "ContainerWaiting", says: "secret 'words' not found", status: "words",
		remedy: apply("apiVersion: v1\nkind: Secret\nmetadata: {name: words}\nstringData: {a: b}\n"),
	},
	{
		name: "init", spec: "initContainers: [{name: check, image: localhost/busybox:testbed, imagePullPolicy: Never, command: [sh, -c, exit 4]}]",
		verdict: "unprepared", reason: "ContainerWaiting", says: "exit code 4", status: "check",
	},
	{
		name: "image", container: "image: localhost/nothing:1", verdict: "unprepared", reason: "ContainerWaiting",
		says: "localhost/nothing:1", status: "ErrImageNeverPull",
		remedy: patch("strategic", `{"spec": {"containers": [{"name": "app", "image": "localhost/busybox:testbed"}]}}`),
	},
	{
		name: "probe", container: "readinessProbe: {periodSeconds: 1, timeoutSeconds: 10, exec: {command: [cat, /tmp/ready]}}",
		verdict: "impaired", reason: "ContainerNotReady", says: "Readiness probe", status: "Readiness probe",
		remedy: func(n *testbed.Namespace, pod string) { n.Sh(pod, "app", "touch /tmp/ready") },
	},
	{
		name: "condition", spec: "readinessGates: [{conditionType: example.com/balancer}]", verdict: "impaired",
		reason: "ReadinessGate", says: "example.com/balancer", status: "example.com/balancer",
		remedy: func(n *testbed.Namespace, pod string) {
			n.Kubectl("patch", "pod", pod, "--subresource=status", "--type=strategic", "-p",
				`{"status": {"conditions": [{"type": "example.com/balancer", "status": "True"}]}}`)
		},
	},
	{
		name: "gate", spec: "schedulingGates: [{name: example.com/queue}]", verdict: "broken", reason: "SchedulingGated",
		says: "example.com/queue", status: "example.com/queue",
		remedy: patch("json", `[{"op": "remove", "path": "/spec/schedulingGates"}]`),
	},
	{
		name: "template", source: "resourceClaimTemplateName: later", verdict: "broken", reason: "TemplateMissing",
		says: "later", status: "later", remedy: apply(testbed.Template("later", "hca.rdma.dev", inherit)),
	},
	{
		name: "claim", source: "resourceClaimName: later", verdict: "broken", reason: "ClaimMissing", says: "later", status: "later",
		remedy: apply(namedClaim("later")),
	},
}

// inherit keeps the limit of locked memory, which the runtime of the test may not raise.
const inherit = "{apiVersion: rdma.dev/v1alpha1, kind: HCAConfig, memlock: inherit}"

func namedClaim(name string) string {
	return fmt.Sprintf(`apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s}
spec:
  devices:
    requests: [{name: nic, exactly: {deviceClassName: hca.rdma.dev}}]
    config: [{opaque: {driver: rdma.dev, parameters: %s}}]
`, name, inherit)
}

func (s *stuck) manifest() string {
	source, image := s.source, "image: localhost/busybox:testbed"
	if source == "" {
		source = "resourceClaimName: all"
	}
	if strings.HasPrefix(s.container, "image:") {
		image = ""
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: hca, %s}]
  %s
  containers:
  - name: app
    imagePullPolicy: Never
    command: [sh, -c, "trap exit TERM; sleep 86400 & wait"]
    resources: {claims: [{name: hca}]}
    %s
    %s
---
`, s.name, source, s.spec, image, s.container)
}

// TestRemedies: of pods that do not run for other reasons than their devices, why names the reason that Kubernetes has,
// status has a problem, and the remedy is one: the pod runs after it.
func TestRemedies(t *testing.T) {
	plugin := bed.Plugin()
	n := bed.Namespace(t)
	bed.Kubectl(t, "create", "-f", runtimeClassFile(t))
	t.Cleanup(func() { bed.Kubectl(t, "delete", "runtimeclass", noHandler) })
	manifest := namedClaim("all")
	for _, s := range stuckPods {
		manifest += "---\n" + s.manifest()
	}
	n.Apply(manifest)
	for _, s := range stuckPods {
		testbed.Eventually(t, "the reason of pod "+s.name, func() error { return s.explained(t, plugin, n.Name) })
	}
	status := plugin.Run(t, n.Name, "status", "--no-headers")
	for _, s := range stuckPods {
		if !lineHas(status, s.name, s.status) {
			t.Errorf("status does not say %q of pod %s:\n%s", s.status, s.name, status)
		}
		if s.remedy != nil {
			s.remedy(n, s.name)
		}
	}
	for _, s := range stuckPods {
		if s.remedy != nil {
			n.Ready(s.name)
			if a := plugin.Why(t, n.Name, s.name); a.Verdict != "fine" {
				t.Errorf("pod %s after its remedy: %s, %s", s.name, a.Verdict, a.Summary)
			}
		}
	}
	n.Kubectl("patch", "pod", "volume", "--type=merge", "-p", `{"metadata": {"finalizers": ["example.com/archive"]}}`)
	n.Kubectl("delete", "pod", "volume", "--wait=false")
	finalizer := stuck{name: "volume", verdict: "ending", reason: "Finalizers", says: "example.com/archive"}
	testbed.Eventually(t, "the finalizer", func() error { return finalizer.explained(t, plugin, n.Name) })
	n.Kubectl("patch", "pod", "volume", "--type=json", "-p", `[{"op": "remove", "path": "/metadata/finalizers"}]`)
	n.Kubectl("wait", "--for=delete", "pod/volume", "--timeout="+testbed.Patience.String())
}

func runtimeClassFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "class.yaml")
	text := "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: " + noHandler + "}\nhandler: no-such-runtime\n"
	must.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// explained checks the verdict, the findings and the first line of why.
func (s *stuck) explained(t *testing.T, p testbed.Plugin, namespace string) error {
	out := p.Run(t, namespace, "why", s.name, "-o", "json")
	var a struct {
		Verdict, Summary string
		Findings         []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		return err
	}
	for _, f := range a.Findings {
		if f.ID == s.reason && a.Verdict == s.verdict && strings.Contains(a.Summary, s.says) {
			return nil
		}
	}
	return fmt.Errorf("want %s, %s and %q:\n%s", s.verdict, s.reason, s.says, out)
}

func lineHas(table, pod, words string) bool {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == pod {
			return strings.Contains(line, words)
		}
	}
	return false
}

// TestQuota: a claim that a quota refuses is no fault of its template, and the pod starts by itself when there is room.
func TestQuota(t *testing.T) {
	plugin := bed.Plugin()
	n := bed.Namespace(t)
	n.Apply("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: fabric}\nspec: {hard: {hca.rdma.dev.deviceclass.resource.k8s.io/devices: \"1\"}}\n---\n" +
		testbed.Template("one", "hca.rdma.dev", inherit) + testbed.PodFor("first", "one"))
	n.Ready("first")
	n.Apply(testbed.PodFor("second", "one"))
	s := stuck{name: "second", verdict: "broken", reason: "QuotaExceeded", says: `ResourceQuota "fabric"`}
	testbed.Eventually(t, "the quota", func() error { return s.explained(t, plugin, n.Name) })
	if out := plugin.Run(t, n.Name, "status", "--no-headers"); !lineHas(out, "second", "ResourceQuota") {
		t.Errorf("status:\n%s", out)
	}
	n.Delete("first")
	n.Ready("second")
}

// TestNamespaceDeleted: the way out of docs/operate.md when somebody deletes the namespace of the driver.
func TestNamespaceDeleted(t *testing.T) {
	needs.Long(t, "it installs the driver twice; TestUninstallCheck shows what stops a removal")
	plugin := bed.Plugin()
	n := bed.Namespace(t)
	n.Running("app")
	// A pod with a claim lives in the namespace of the driver, so that it cannot end.
	inside, err := bed.KubectlInput(t, namedClaim("monitor")+"---\n"+testbed.Pod("monitor", "resourceClaimName: monitor"), "--namespace", deploy.Namespace, "apply", "-f", "-")
	if err != nil {
		t.Fatal(err, inside)
	}
	bed.Kubectl(t, "--namespace", deploy.Namespace, "wait", "--for=condition=Ready", "pod/monitor", "--timeout="+testbed.Patience.String())
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := bed.Inside(t, "helm", "get", "values", deploy.Release, "--namespace", deploy.Namespace, "-o", "yaml")
	must.NoError(t, os.WriteFile(values, []byte(text), 0o600))
	bed.Kubectl(t, "delete", "namespace", deploy.Namespace, "--wait=false")
	gone := stuck{name: "monitor", verdict: "ending", reason: "DriverMissing", says: "no pod of the driver runs"}
	testbed.Eventually(t, "the reason of the pod that cannot end", func() error { return gone.explained(t, plugin, deploy.Namespace) })
	install := func(namespace string, more ...string) {
		bed.Inside(t, "helm", append([]string{"install", deploy.Release, bed.Checkout.Chart(), "--namespace", namespace, "--create-namespace", "--values", values, "--wait", "--timeout", "120s"}, more...)...)
	}
	install("rdma-rescue", "--take-ownership")
	bed.Kubectl(t, "wait", "--for=delete", "namespace/"+deploy.Namespace, "--timeout=120s")
	bed.Inside(t, "helm", "uninstall", deploy.Release, "--namespace", "rdma-rescue", "--no-hooks", "--wait")
	bed.Kubectl(t, "delete", "namespace", "rdma-rescue", "--wait")
	install(deploy.Namespace)
	n.RestartContainer("app") // it ran all the time
	n.Delete("app")
	n.Running("another")
}

// TestEndedPodOfSharedClaim: while a pod that has ended and a running one have one claim, Kubernetes 1.37 reserves the
// claim for the ended pod and takes that back, all the time (kubernetes#141274). To delete the ended pod ends it. When
// the first part fails, Kubernetes has repaired this, and docs/faq.md needs no warning any more.
func TestEndedPodOfSharedClaim(t *testing.T) {
	needs.Long(t, "it shows a bug of Kubernetes")
	n := bed.Namespace(t)
	ended := strings.NewReplacer(
		"trap exit TERM; sleep 86400 & wait", "exit 0", "terminationGracePeriodSeconds: 1", "restartPolicy: Never",
	).Replace(testbed.Pod("ended", "resourceClaimName: all"))
	n.Apply(namedClaim("all") + "---\n" + testbed.Pod("running", "resourceClaimName: all") + ended)
	n.Ready("running")
	n.Kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/ended", "--timeout="+testbed.Patience.String())
	version := func() string {
		return n.Kubectl("get", "resourceclaim", "all", "-o", "jsonpath={.metadata.resourceVersion}")
	}
	for i := range 5 {
		last := version()
		testbed.Eventually(t, fmt.Sprintf("write %d of the claim", i), func() error {
			if version() == last {
				return fmt.Errorf("the version stays %s", last)
			}
			return nil
		})
	}
	n.Delete("ended")
	testbed.Eventually(t, "a claim that nobody writes", func() error {
		before := version()
		for range 20 {
			if now := version(); now != before {
				return fmt.Errorf("version %s after %s", now, before)
			}
		}
		return nil
	})
}
