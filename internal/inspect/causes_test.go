package inspect_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/inspect"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/fleet"
)

// trouble is a pod whose claim is allocated, and what Kubernetes says of the pod.
type trouble struct {
	name    string
	change  func(*corev1.Pod)
	events  []corev1.Event
	verdict inspect.Verdict
	// reasons are those of the findings, in their order. says is in the first line.
	reasons []string
	says    string
	// quiet marks what status does not call a problem.
	quiet bool
}

// at is a Warning of the kubelet about the pod, some seconds after its creation.
func at(second int, reason, message string) corev1.Event {
	return corev1.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, Source: corev1.EventSource{Component: "kubelet"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "trainer", UID: "trainer"},
		LastTimestamp:  metav1.Unix(1_700_000_000+int64(second), 0),
	}
}

func inContainer(path string, e corev1.Event) corev1.Event {
	e.InvolvedObject.FieldPath = path
	return e
}

func condition(
	kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string,
) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message}
}

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func hasEnded(reason string, code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}
}

// names are the resources of a container that gets the claim.
var names = corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "nic"}}}

func running(p *corev1.Pod) { *p = fleet.Running(*p) }

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1_700_000_100, 0)}, new(int64(30))
}

var troubles = []trouble{
	{name: "starting", verdict: inspect.VerdictUnprepared, says: "nothing is known to be wrong", quiet: true},
	{
		name: "runtime class", change: func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("kata") },
		events:  []corev1.Event{at(1, "FailedCreatePodSandBox", `no runtime for "kata-none" is configured`)},
		verdict: inspect.VerdictUnprepared, reasons: []string{"SandboxFailed"}, says: "kata-none",
	},
	{
		name: "CNI", events: []corev1.Event{at(1, "FailedCreatePodSandBox", `plugin type="calico" failed (add)`)},
		verdict: inspect.VerdictUnprepared, reasons: []string{"SandboxFailed"}, says: "calico",
	},
	{
		name: "network", events: []corev1.Event{at(1, "NetworkNotReady", "cni plugin not initialized")},
		verdict: inspect.VerdictUnprepared, reasons: []string{"SandboxFailed"}, says: "cni plugin not initialized",
	},
	{
		name: "config map of a volume",
		events: []corev1.Event{
			at(1, "FailedMount", `configmap "none" not found`),
			at(9, "FailedMount", "Unable to attach or mount volumes: unmounted volumes=[v]: timed out"),
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"VolumeFailed"}, says: "configmap 'none' not found",
	},
	{
		name: "a later step fails now", // the mount worked since
		events: []corev1.Event{
			at(1, "FailedMount", "too slow"), at(2, "FailedPrepareDynamicResources", "in use by claim x"),
			at(3, "FailedCreatePodSandBox", "no address left"),
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"SandboxFailed"}, says: "no address left",
	},
	{
		name: "an earlier step fails again",
		events: []corev1.Event{
			at(1, "FailedCreatePodSandBox", "no address left"), at(3, "FailedPrepareDynamicResources", "in use by claim x"),
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"PrepareFailed", "SandboxFailed"},
		says: "in use by claim x",
	},
	{
		name: "sandbox came", events: []corev1.Event{at(1, "FailedCreatePodSandBox", "no address left")},
		change: func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{
				condition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", ""),
			}
		},
		verdict: inspect.VerdictUnprepared, says: "nothing is known to be wrong", quiet: true,
	},
	{
		name: "init container waits",
		change: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{
				{Name: "pull", State: waits("ImagePullBackOff", "not found")},
			}
			p.Status.ContainerStatuses[0].State = waits("PodInitializing", "")
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"ContainerWaiting"},
		says: "init container pull waits: ImagePullBackOff",
	},
	{
		name: "init container loops",
		change: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
				Name: "wait", State: waits("CrashLoopBackOff", "back-off 20s"), LastTerminationState: hasEnded("Error", 3),
			}}
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"ContainerWaiting"}, says: "exit code 3",
	},
	{
		name: "init container runs",
		change: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
				Name: "wait", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"InitContainerRuns"},
		says: "init container wait runs", quiet: true,
	},
	{
		name: "init container runs again",
		change: func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
				Name: "wait", RestartCount: 3, LastTerminationState: hasEnded("Error", 3),
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"ContainerFailed"},
		says: "init container wait runs after 3 restarts: it ended: Error, exit code 3",
	},
	{
		name: "secret of the environment",
		change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = waits("CreateContainerConfigError", `secret "none" not found`)
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"ContainerWaiting"}, says: "secret 'none' not found",
	},
	{
		name: "one of two containers",
		change: func(p *corev1.Pod) {
			running(p)
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
				corev1.ContainerStatus{Name: "other", State: waits("ErrImagePull", "denied")})
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"ContainerWaiting"},
		says: "not all of its containers have started",
	},
	{
		name: "the other container has no status yet",
		change: func(p *corev1.Pod) {
			running(p)
			p.Spec.Containers = []corev1.Container{{Name: "main", Resources: names}, {Name: "other"}}
		},
		verdict: inspect.VerdictUnprepared, says: "not all of its containers have started yet", quiet: true,
	},
	{
		name: "no container names the claim", // it has no device, whatever its claim has
		change: func(p *corev1.Pod) {
			running(p)
			p.Spec.Containers = []corev1.Container{{Name: "main"}}
		},
		verdict: inspect.VerdictImpaired, reasons: []string{"ClaimNotNamed"},
		says: "its containers have started: no container names claim nic",
	},
	{
		name: "refused by its node",
		change: func(p *corev1.Pod) {
			// rejectPod in pkg/kubelet/kubelet.go of Kubernetes 1.37
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: no CPU left"}
		},
		verdict: inspect.VerdictDone, reasons: []string{"EndedByKubernetes"}, says: "node node1 refused it",
	},
	{
		name: "crash loop",
		change: func(p *corev1.Pod) {
			running(p)
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
				Name: "main", State: waits("CrashLoopBackOff", "back-off 40s"), LastTerminationState: hasEnded("OOMKilled", 137),
			}
		},
		verdict: inspect.VerdictImpaired, reasons: []string{"ContainerWaiting"}, says: "OOMKilled, exit code 137",
	},
	{
		name: "out of memory once",
		change: func(p *corev1.Pod) {
			running(p)
			s := &p.Status.ContainerStatuses[0]
			s.LastTerminationState, s.RestartCount = hasEnded("OOMKilled", 137), 1
		},
		verdict: inspect.VerdictFine, reasons: []string{"ContainerFailed"}, quiet: true,
	},
	{
		name: "out of memory now and then",
		change: func(p *corev1.Pod) {
			running(p)
			s := &p.Status.ContainerStatuses[0]
			s.LastTerminationState, s.RestartCount = hasEnded("OOMKilled", 137), 7
			s.State.Running.StartedAt = metav1.Unix(1_700_000_000, 0)
		},
		verdict: inspect.VerdictImpaired, reasons: []string{"ContainerFailed"}, says: "after 7 restarts: it ended: OOMKilled",
	},
	{
		name: "never started",
		change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
				Name: "main", State: waits("CrashLoopBackOff", "back-off"), LastTerminationState: hasEnded("StartError", 128),
			}
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"ContainerWaiting"}, says: "it has not started: container main",
	},
	{
		name:    "readiness probe",
		change:  func(p *corev1.Pod) { running(p); p.Status.ContainerStatuses[0].Ready = false },
		events:  []corev1.Event{inContainer("spec.containers{main}", at(9, "Unhealthy", "Readiness probe failed: refused"))},
		verdict: inspect.VerdictImpaired, reasons: []string{"ContainerNotReady"}, says: "Readiness probe failed",
	},
	{
		name:    "not ready yet",
		change:  func(p *corev1.Pod) { running(p); p.Status.ContainerStatuses[0].Ready = false },
		events:  []corev1.Event{inContainer("spec.containers{other}", at(9, "Unhealthy", "Readiness probe failed: refused"))},
		verdict: inspect.VerdictFine, reasons: []string{"ContainerNotReady"}, quiet: true,
	},
	{
		name: "readiness gate",
		change: func(p *corev1.Pod) {
			running(p)
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.ContainersReady, corev1.ConditionTrue, "", "")}
		},
		verdict: inspect.VerdictImpaired, reasons: []string{"ReadinessGate"}, says: "example.com/lb",
	},
	{
		name: "unknown warnings", // the newest three, as they are
		events: []corev1.Event{
			at(1, "A", "a"), at(2, "B", "b"), at(3, "C", "c"),
			at(4, "D", "evil\nPod default/x is fine\x1b[2J"), at(4, "D", "evil"),
		},
		verdict: inspect.VerdictUnprepared, reasons: []string{"WarningEvent", "WarningEvent", "WarningEvent"},
		says: `"D of kubelet: evil"`,
	},
	{
		name: "unknown warning of a pod that is well", change: running, events: []corev1.Event{at(1, "A", "a")},
		verdict: inspect.VerdictFine, reasons: []string{"WarningEvent"}, quiet: true,
	},
	{
		name: "unschedulable", change: func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			*p = fleet.Unschedulable(*p, "0/1 nodes: Insufficient memory")
		},
		verdict: inspect.VerdictSchedulable, reasons: []string{"Unschedulable"}, says: "waits for the scheduler",
	},
	{
		name: "node gone", change: func(p *corev1.Pod) { running(p); p.Spec.NodeName = "none" },
		verdict: inspect.VerdictImpaired, reasons: []string{"NodeMissing"}, says: "node none does not exist",
	},
	{
		name: "ending", change: func(p *corev1.Pod) { running(p); deleted(p) },
		verdict: inspect.VerdictEnding, says: "30 seconds", quiet: true,
	},
	{
		name: "cannot be unprepared", change: func(p *corev1.Pod) { running(p); deleted(p) },
		events:  []corev1.Event{at(1, "RDMAUnprepareFailed", "directory is read-only")},
		verdict: inspect.VerdictEnding, reasons: []string{"UnprepareFailed"}, says: "read-only",
	},
	{
		name: "cannot be killed", change: func(p *corev1.Pod) { running(p); deleted(p) },
		events:  []corev1.Event{at(1, "FailedKillPod", "runtime is away")},
		verdict: inspect.VerdictEnding, reasons: []string{"KillFailed"}, says: "runtime is away",
	},
	{
		name: "finalizer", change: func(p *corev1.Pod) {
			deleted(p)
			p.Finalizers, p.Status.Phase = []string{"example.com/archive"}, corev1.PodSucceeded
		},
		verdict: inspect.VerdictEnding, reasons: []string{"Finalizers"}, says: "example.com/archive",
	},
	{
		name: "evicted by a taint", change: func(p *corev1.Pod) {
			running(p)
			deleted(p)
			p.Status.Conditions = []corev1.PodCondition{condition(corev1.DisruptionTarget, corev1.ConditionTrue,
				"DeletionByDeviceTaintManager", "Device Taint manager: deleting")}
		},
		verdict: inspect.VerdictEnding, reasons: []string{"Evicted"}, says: "DeletionByDeviceTaintManager",
	},
	{
		name: "evicted", change: func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
			p.Status.Message = "The node was low on resource: memory"
		},
		verdict: inspect.VerdictDone, reasons: []string{"EndedByKubernetes"}, says: "low on resource: memory",
	},
	{
		name: "containers have ended", change: func(p *corev1.Pod) {
			running(p)
			p.Spec.RestartPolicy, p.Status.ContainerStatuses[0].State = corev1.RestartPolicyNever, hasEnded("Completed", 0)
		},
		verdict: inspect.VerdictImpaired, reasons: []string{"ContainersEnded"},
		says: "has not released its devices yet", quiet: true,
	},
}

// TestCauses: why names what Kubernetes says of a pod, the first cause first, and status has a problem for the same
// pods.
func TestCauses(t *testing.T) {
	for _, tc := range troubles {
		t.Run(tc.name, func(t *testing.T) {
			f := fleet.New(t)
			f.Node("node1", "hgx-h100", "")
			f.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev"))).Status.ReservedFor =
				[]resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "trainer", UID: "trainer"}}
			pod := fleet.On(fleet.Pod("nic"), "node1")
			if tc.change != nil {
				tc.change(&pod)
			}
			c := cluster(f)
			c.Now = time.Unix(1_700_000_500, 0)
			a := explained(t, c, inspect.Question{Pod: pod, Events: tc.events})
			if a.Verdict != tc.verdict || !slices.Equal(reasons(a), tc.reasons) || !strings.Contains(a.Summary, tc.says) {
				t.Errorf("%s %q: %s; want %s %q: %s", a.Verdict, reasons(a), a.Summary, tc.verdict, tc.reasons, tc.says)
			}
			c.UserPods, c.Events, c.Templates = []corev1.Pod{pod}, tc.events, []resourceapi.ResourceClaimTemplate{}
			c.Nodes = nil // status does not read them
			pods := c.ListPods(context.Background())
			if tc.name == "node gone" {
				return // without the nodes, the event of the node controller says so: TestNodeLost
			}
			if len(pods) != 1 || (len(pods[0].Problems) == 0) != tc.quiet {
				t.Errorf("status: %+v; a problem is wanted: %t", pods, !tc.quiet)
			}
		})
	}
}

func explained(t *testing.T, c *inspect.Cluster, q inspect.Question) *inspect.Answer {
	t.Helper()
	a, err := c.Why(context.Background(), q)
	must.NoError(t, err)
	var text bytes.Buffer
	if err := a.WriteText(&text, false); err != nil || strings.ContainsAny(text.String(), "\x1b") {
		t.Errorf("%v:\n%s", err, &text)
	}
	for line := range strings.Lines(text.String()) {
		test.False(t, strings.HasPrefix(line, "Pod default/x"), test.Sprintf("an event begins a line:\n%s", &text))
	}
	return a
}

func reasons(a *inspect.Answer) (out []string) {
	for _, f := range a.Findings {
		out = append(out, f.Reason)
	}
	return out
}

// TestNodeLost: without the nodes, the event of the node controller tells of a lost node, until the pod is ready again.
func TestNodeLost(t *testing.T) {
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		f := fleet.New(t)
		f.Node("node1", "hgx-h100", "")
		f.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		pod := fleet.Running(fleet.On(fleet.Pod("nic"), "node1"))
		pod.Status.Conditions = []corev1.PodCondition{condition(corev1.PodReady, ready, "", "")}
		c := cluster(f)
		c.Nodes, c.UserPods, c.Events = nil, []corev1.Pod{pod}, []corev1.Event{at(1, "NodeNotReady", "Node is not ready")}
		if got, want := len(c.ListPods(context.Background())[0].Problems) > 0, ready == corev1.ConditionFalse; got != want {
			t.Errorf("a pod that is ready %s after its node was away: problems %t", ready, got)
		}
	}
}

// TestDriverless: the status of a pod says that its containers run until its node has released its devices, so a
// missing driver is the cause, both after a deletion and after the containers' end.
func TestDriverless(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"deleted": func(p *corev1.Pod) { running(p); deleted(p) },
		"ended": func(p *corev1.Pod) {
			running(p)
			p.Spec.RestartPolicy, p.Status.ContainerStatuses[0].State = corev1.RestartPolicyNever, hasEnded("Completed", 0)
		},
	} {
		f := fleet.New(t)
		f.Node("node1", "hgx-h100", "")
		f.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
		f.Pods = nil
		pod := fleet.On(fleet.Pod("nic"), "node1")
		change(&pod)
		c := cluster(f)
		a := explained(t, c, inspect.Question{Pod: pod})
		if reasons(a)[0] != "DriverMissing" || a.Verdict == inspect.VerdictFine {
			t.Errorf("%s: %s %s", name, a.Verdict, a.Summary)
		}
		c.UserPods = []corev1.Pod{pod}
		if pods := c.ListPods(context.Background()); len(pods) != 1 || len(pods[0].Problems) == 0 {
			t.Errorf("%s: status %+v", name, pods)
		}
	}
}

// TestEventsUnread: without the events, nobody says that nothing is wrong.
func TestEventsUnread(t *testing.T) {
	f := fleet.New(t)
	f.Node("node1", "hgx-h100", "")
	f.Allocate("node1", "nic", claim(want("nic", "hca.rdma.dev")))
	c := cluster(f)
	c.Unread = []inspect.Unread{{Kind: inspect.Events}}
	pod := fleet.On(fleet.Pod("nic"), "node1")
	if a := explained(t, c, inspect.Question{Pod: pod}); !strings.Contains(a.Summary, "events could not be read") ||
		strings.Contains(a.Summary, "nothing") {
		t.Errorf("why: %s", a.Summary)
	}
	c.UserPods = []corev1.Pod{pod}
	if p := c.ListPods(context.Background()); !strings.Contains(fmt.Sprint(p[0].Problems), "events could not be read") {
		t.Errorf("status: %q", p[0].Problems)
	}
}

// TestPodsWithoutClaims: status lists pods that have no claim objects yet, and of other drivers' pods none.
func TestPodsWithoutClaims(t *testing.T) {
	f := fleet.New(t)
	f.Node("node1", "hgx-h100", "")
	f.Classes[2].Spec.ExtendedResourceName = new("rdma/hca")
	template := func(name, class string) resourceapi.ResourceClaimTemplate {
		return resourceapi.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: resourceapi.ResourceClaimTemplateSpec{
				Spec: resourceapi.ResourceClaimSpec{Devices: claim(want("nic", class))},
			},
		}
	}
	named := func(name string, p corev1.Pod) corev1.Pod { p.Name, p.UID = name, ""; return p }
	c := cluster(f)
	c.Templates = []resourceapi.ResourceClaimTemplate{template("ours", "hca.rdma.dev"), template("gpu", "gpu.example.com")}
	c.UserPods = []corev1.Pod{
		named("ours", ofTemplate("ours")), named("gpu", ofTemplate("gpu")), named("lost", ofTemplate("none")),
		named("missing", fleet.Pod("none")), named("extended", wantsResource("rdma/hca", "1")),
		named("cpu", fleet.Pod()), named("gpus", wantsResource("example.com/gpu", "1")),
	}
	c.Nodes = nil
	var got []string
	for _, p := range c.ListPods(context.Background()) {
		if len(p.Problems) > 0 {
			got = append(got, p.Name)
		}
	}
	test.SliceEqOp(t, []string{"extended", "lost", "missing", "ours"}, got, test.Sprint("status has problems"))
	for words, want := range map[string]string{ // of the API server, see policyRemedy
		`resourceclaims "x" is forbidden: unable to create new content in namespace default because it is being terminated`:                                   "in another one",
		`admission webhook "w.example.com" denied the request: no admin access, exceeded quota: the label team is missing`:                                    "ask who runs it",
		`resourceclaims "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no admin access`:                                     "what the policy asks",
		`Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: Post "https://w.default.svc": dial tcp: connection refused`: "it does not answer",
	} {
		a := explained(t, c, inspect.Question{
			Pod: ofTemplate("ours"), Templates: map[string]bool{"ours": true}, Events: []corev1.Event{at(1, "FailedResourceClaimCreation", words)},
		})
		if f := a.Findings[0]; f.Reason != "ClaimRefused" || !strings.Contains(f.Remedy, want) {
			t.Errorf("%s: %+v, want %q", words, f, want)
		}
	}
	quota := at(1, "FailedResourceClaimCreation", `resourceclaims "x" is forbidden: exceeded quota: q, requested: 2`)
	a := explained(t, c, inspect.Question{
		Pod: ofTemplate("ours"), Templates: map[string]bool{"ours": true}, Events: []corev1.Event{quota},
	})
	if reasons(a)[0] != "QuotaExceeded" || !strings.Contains(a.Summary, `ResourceQuota "q"`) ||
		strings.Contains(a.Findings[0].Remedy, "template") {
		t.Errorf("quota: %+v", a)
	}
}
