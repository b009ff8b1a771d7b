package plugin

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"sigs.k8s.io/yaml"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/needs"
	"github.com/rdma-dev/dra-driver-rdma/test/cluster/internal/testbed"
)

// waiting is a pod that waits.
type waiting struct {
	// Claim is the spec of its claim, in flow style; Pod is more of the pod's spec.
	Claim flow
	Pod   string
	// Source and Container stand for pods without a claim of that kind.
	Source, Container string
	Verdict           string
	Reasons           []string
	// Planned are the reasons of its manifest alone, if they are not Reasons: there are no events yet.
	Planned []string
	// Newer needs a feature that 1.34 has not.
	Newer bool
	// Event is what the pod waits for, if the scheduler does not look at it.
	Event string
	// Quiet marks a pod that nobody says anything about.
	Quiet bool
}

// flow is YAML in flow style.
type flow string

// UnmarshalJSON implements json.Unmarshaler.
func (f *flow) UnmarshalJSON(text []byte) error {
	*f = flow(text)
	return nil
}

func request(name, class, more string) string {
	return fmt.Sprintf("{name: %s, exactly: {deviceClassName: %s%s}}", name, class, more)
}

func devices(requests, more string) flow {
	return flow(fmt.Sprintf("{devices: {requests: [%s]%s}}", requests, more))
}

func selector(expression string) string {
	return fmt.Sprintf(", selectors: [{cel: {expression: '%s'}}]", expression)
}

//go:embed testdata/waiting.yaml
var waitingFile []byte

// pods wait, and holders are scheduled and have what pods wait for.
var pods, holders = func() (pods, holders map[string]waiting) {
	var file struct{ Pods, Holders map[string]waiting }
	if err := yaml.UnmarshalStrict(waitingFile, &file); err != nil {
		panic(err)
	}
	return file.Pods, file.Holders
}()

func (w waiting) manifest(name string) string {
	source := w.Source
	text := ""
	if w.Claim != "" {
		source = "resourceClaimTemplateName: " + name
		text = fmt.Sprintf("apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: %s}\n"+
			"spec: {spec: %s}\n---\n", name, w.Claim)
	}
	spec := w.Pod
	if spec == "" {
		spec = "restartPolicy: Never"
	}
	resources := ""
	if source != "" {
		spec += "\n  resourceClaims: [{name: devices, " + source + "}]"
		resources = "claims: [{name: devices}]"
	}
	switch {
	case w.Container == "memory":
		resources += ", requests: {memory: 4Ti}"
	case w.Container != "":
		resources = fmt.Sprintf("limits: {%s: 30}", w.Container)
	}
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  %s\n" +
		"  containers: [{name: main, image: busybox, resources: {%s}}]\n---\n"
	return text + fmt.Sprintf(pod, name, spec, resources)
}

// rule taints one device. Its pod waits for that one.
const rule = `apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: maintenance}
spec:
  deviceSelector: {driver: rdma.dev, pool: train, device: pci-0000-7e-00-0}
  taint: {key: example.com/maintenance, effect: NoSchedule}
`

const emptyClass = `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: empty.example.com}
spec: {selectors: [{cel: {expression: 'device.driver == "nobody.example.com"'}}]}
`

// TestWhy: the scheduler leaves each pod waiting, and kubectl rdma why names the reason.
func TestWhy(t *testing.T) {
	for _, version := range []string{"", "1.34"} {
		t.Run("kubernetes"+version, func(t *testing.T) {
			newer := version == ""
			if !newer {
				needs.Long(t, "TestOldPodWaits of package releases asks why on this release; "+
					"shares-missing.txtar of internal/inspect has a server without gates")
			}
			t.Parallel()
			nodes := []string{"exclusive"}
			if newer {
				nodes = append(nodes, "shared")
			}
			b := newBed(t, version, nodes...)
			if newer {
				b.run("kubectl", "patch", "deviceclass", "shared.hca.rdma.dev", "--type=merge", "-p",
					`{"spec": {"extendedResourceName": "rdma/hca"}}`)
			}
			b.apply(emptyClass)
			if newer {
				b.apply(rule)
			}
			b.hold(newer)
			b.wait(newer)
			for name, w := range pods {
				if newer || !w.Newer {
					b.explained(name, w)
				}
			}
			b.planned(newer)
			b.lists()
			b.report(newer)
			b.helps()
			if newer {
				b.rules()
				b.completes()
				b.rights()
			} else {
				b.withoutRules()
			}
		})
	}
}

// hold makes the pods that have what others wait for.
func (b *bed) hold(newer bool) {
	for name, w := range holders {
		if newer || !w.Newer {
			b.apply(w.manifest(name))
			b.scheduled(name)
		}
	}
}

func (b *bed) scheduled(pod string)   { b.Helper(); b.await(pod, "PodScheduled=True") }
func (b *bed) unscheduled(pod string) { b.Helper(); b.await(pod, "PodScheduled=False") }

func (b *bed) await(pod, condition string) {
	b.Helper()
	b.run("kubectl", "wait", "pod/"+pod, "--for=condition="+condition, "--timeout="+testbed.Patience.String())
}

// wait makes the pods that wait, and waits until the control plane has looked at each.
func (b *bed) wait(newer bool) {
	// Who has a template for administrators has it from when the namespace had the
	// label: without, the API server refuses the template.
	const label = "resource.kubernetes.io/admin-access"
	b.run("kubectl", "label", "namespace", "default", label+"=true")
	template, _, _ := strings.Cut(pods["admin"].manifest("admin"), "---\n")
	b.apply(template)
	b.run("kubectl", "label", "namespace", "default", label+"-")

	var all strings.Builder
	for name, w := range pods {
		if name == "admin" {
			_, pod, _ := strings.Cut(w.manifest(name), "---\n")
			all.WriteString(pod)
			continue
		}
		if newer || !w.Newer {
			all.WriteString(w.manifest(name))
		}
	}
	b.apply(all.String())
	for name, w := range pods {
		if w.Newer && !newer || w.Quiet {
			continue
		}
		if w.Event != "" {
			b.until("an event "+w.Event+" of "+name, func() bool {
				return strings.Contains(b.run("kubectl", "get", "events", "-o", "name", "--field-selector",
					"involvedObject.name="+name+",reason="+w.Event), "event/")
			})
			continue
		}
		b.unscheduled(name)
	}
}

// explained checks what the plugin says of a pod.
func (b *bed) explained(name string, w waiting) {
	b.Helper()
	a := b.why(name)
	got := a.reasons()
	if a.Verdict != w.Verdict {
		b.Errorf("%s: %s (%s), want %s", name, a.Verdict, a.Summary, w.Verdict)
	}
	if len(a.Unread) > 0 { // an administrator reads everything, also where DeviceTaintRules are not served
		b.Errorf("%s: not known: %q", name, a.Unread)
	}
	for _, reason := range w.Reasons {
		if !got[reason] {
			b.Errorf("%s: %q is not among %v:\n%s", name, reason, got, b.run("kubectl", "rdma", "why", name, "-o", "wide"))
		}
	}
}

// planned checks that the manifests of the pods that wait are judged as these pods, which have the defaults that the
// API server sets.
func (b *bed) planned(newer bool) {
	b.Helper()
	var all strings.Builder
	for name, w := range pods {
		if newer || !w.Newer {
			all.WriteString(w.manifest(name))
		}
	}
	file := filepath.Join(b.TempDir(), "pods.yaml")
	must.NoError(b, os.WriteFile(file, []byte(all.String()), 0o644))
	var list struct{ Items []answer }
	out, err := b.command("kubectl", "rdma", "why", "-f", file, "-o", "json").Output() // it fails, since most do not fit
	if err == nil || json.Unmarshal(out, &list) != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, a := range list.Items {
		w := pods[a.Pod]
		if a.Phase != "Planned" || a.Verdict != w.Verdict || len(a.Unread) > 0 {
			b.Errorf("%s, planned: %s (%s), not known %q; want %s", a.Pod, a.Verdict, a.Summary, a.Unread, w.Verdict)
		}
		reasons := w.Planned
		if len(reasons) == 0 {
			reasons = w.Reasons
		}
		for _, reason := range reasons {
			if got := a.reasons(); !got[reason] {
				b.Errorf("%s, planned: %q is not among %v", a.Pod, reason, got)
			}
		}
	}
	if want := strings.Count(all.String(), "kind: Pod\n"); len(list.Items) != want || want < 12 {
		b.Errorf("%d pods are judged, want %d", len(list.Items), want)
	}
}

// lists checks the other commands on what the scheduler did.
func (b *bed) lists() {
	out := b.run("kubectl", "rdma", "claims")
	if !strings.Contains(out, "holder-nic-devices-") || !strings.Contains(out, "mlx5_0") {
		b.Errorf("kubectl rdma claims:\n%s", out)
	}
	if out := b.run("kubectl", "rdma", "devices", "train"); !strings.Contains(out, "Allocated") {
		b.Errorf("kubectl rdma devices:\n%s", out)
	}
	if out := b.run("kubectl", "rdma", "nodes", "train", "--no-headers"); !strings.Contains(out, "Missing") {
		b.Errorf("kubectl rdma nodes, without a driver's pod:\n%s", out)
	}
	if out := b.run("kubectl", "rdma", "topology", "train"); !strings.Contains(out, "mlx5_0") ||
		!strings.Contains(out, "gpu-0") || !strings.Contains(out, "allocated to default/holder-nic") {
		b.Errorf("kubectl rdma topology:\n%s", out)
	}
	// The pod has its devices and a node, and no kubelet starts it.
	if a := b.why("holder-nic"); a.Verdict != "unprepared" || !a.reasons()["DriverMissing"] {
		b.Errorf("a pod on a node without a driver: %+v", a)
	}
}

// helps does what an answer said would help: the pod is scheduled then, and who watches the status sees it.
func (b *bed) helps() {
	status := b.watch("kubectl", "rdma", "status", "--watch", "--no-headers")
	b.until("a status of the pod that waits", func() bool {
		return regexp.MustCompile(`-\s+allocated\s+Pending .* has no devices`).MatchString(status())
	})
	b.run("kubectl", "delete", "pod", "holder-nic", "--grace-period=0", "--force")
	b.scheduled("allocated")
	b.until("a status of the pod with its HCA", func() bool {
		return regexp.MustCompile(`-\s+allocated\s+Pending\s+train\s+mlx5_0`).MatchString(status())
	})
}

// rules checks that the rule is named, and that the pod starts without it, which the status also shows.
func (b *bed) rules() {
	const by = "example.com/maintenance:NoSchedule (rule maintenance)"
	if out := b.run("kubectl", "rdma", "devices", "train"); strings.Count(out, by) != 1 {
		b.Errorf("kubectl rdma devices shows the rule's taint %d times, want once:\n%s", strings.Count(out, by), out)
	}
	if out := b.run("kubectl", "rdma", "nodes", "train"); !strings.Contains(out, "(rule maintenance)") {
		b.Errorf("kubectl rdma nodes does not name the rule:\n%s", out)
	}
	out := b.run("kubectl", "rdma", "why", "taint-rule")
	if !strings.Contains(out, "ask the author of DeviceTaintRule maintenance to remove it") {
		b.Errorf("kubectl rdma why does not name the rule:\n%s", out)
	}
	b.run("kubectl", "delete", "devicetaintrule", "maintenance")
	b.scheduled("taint-rule")
	status := b.watch("kubectl", "rdma", "status", "--watch", "--no-headers", "-o", "wide")
	b.until("a status of the pod that was tainted", func() bool {
		return regexp.MustCompile(`-\s+taint-rule\s+Pending\s+train\s+mlx5_7`).MatchString(status())
	})
	b.apply(rule)
	b.until("a status with the new rule", func() bool {
		return strings.Contains(status(), "has the taint example.com/maintenance (NoSchedule) by DeviceTaintRule maintenance")
	})
}

// watch starts a program, which ends with the test, and returns a function for what it has printed.
func (b *bed) watch(args ...string) func() string {
	b.Helper()
	out, err := os.Create(filepath.Join(b.TempDir(), "output"))
	must.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	cmd := exec.CommandContext(ctx, "/usr/bin/env", args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = b.env, out, out
	must.NoError(b, cmd.Start())
	b.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
		out.Close()
	})
	return func() string {
		text, err := os.ReadFile(out.Name())
		must.NoError(b, err)
		return string(text)
	}
}

// completes checks kubectl's completion of the plugin, by kubectl_complete-rdma.
func (b *bed) completes() {
	out := b.run("kubectl", "__complete", "rdma", "why", "class-")
	if !strings.Contains(out, "class-empty\n") || !strings.Contains(out, "class-missing\n") {
		b.Errorf("kubectl completes pods with:\n%s", out)
	}
}

// rights: the role in the document is enough for everything.
func (b *bed) rights() {
	doc, err := os.ReadFile("../../../../docs/kubectl-rdma.md")
	must.NoError(b, err)
	_, role, _ := strings.Cut(string(doc), "## Rights\n")
	_, role, _ = strings.Cut(role, "```yaml\n")
	role, _, _ = strings.Cut(role, "```")
	b.apply(role)
	b.run("kubectl", "create", "clusterrolebinding", "kubectl-rdma", "--clusterrole=kubectl-rdma", "--user=jane")
	for _, pod := range []string{"allocated", "counters", "template-missing", "admin"} {
		var a answer
		err := json.Unmarshal([]byte(b.run("kubectl", "rdma", "why", pod, "-o", "json", "--as=jane")), &a)
		if err != nil || len(a.Unread) > 0 {
			b.Errorf("why %s, with the rights of the document: %v, not known: %v", pod, err, a.Unread)
		}
	}
	for _, command := range []string{
		"nodes", "devices -l a=b --class=hca.rdma.dev", "claims -A", "topology", "status -A",
	} {
		args := append([]string{"kubectl", "rdma", "--as=jane"}, strings.Fields(command)...)
		out, err := b.command(args...).CombinedOutput()
		if err != nil || strings.Contains(string(out), "Warning") {
			b.Errorf("%s, with the rights of the document: %v\n%s", command, err, out)
		}
	}
}
