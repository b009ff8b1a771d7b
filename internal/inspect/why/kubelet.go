package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var (
	sandboxFailed = Kinds.Kind("SandboxFailed", eventsRead)
	volumeFailed  = Kinds.Kind("VolumeFailed", eventsRead)
	prepareFailed = Kinds.Kind("PrepareFailed", eventsRead)
	warningEvent  = Kinds.Kind("WarningEvent", eventsRead)
)

// preparation is what a Warning event says of the kubelet's work before the first container. The kubelet takes these
// steps in this order, and all of them again after a failure.
var preparation = map[string]struct {
	step    int
	kind    *finding.Kind
	message string
}{
	"NetworkNotReady":               {step: 1, kind: sandboxFailed, message: "the node's network is not ready"},
	"FailedCreatePodContainer":      {step: 2, kind: sandboxFailed, message: "its cgroup cannot be made"},
	"FailedAttachVolume":            {step: 3, kind: volumeFailed, message: "a volume cannot be attached"},
	"FailedMapVolume":               {step: 3, kind: volumeFailed, message: "a volume cannot be mapped"},
	"FailedMount":                   {step: 3, kind: volumeFailed, message: "a volume cannot be mounted"},
	"FailedPrepareDynamicResources": {step: 4, kind: prepareFailed, message: "the node cannot prepare its devices"},
	"FailedCreatePodSandBox":        {step: 5, kind: sandboxFailed, message: "its sandbox cannot be made"},
	"FailedPodSandBoxStatus":        {step: 5, kind: sandboxFailed, message: "its sandbox has no status"},
}

// explainedBeside are events that other parts of the package explain, by a condition or by the status of a container.
var explainedBeside = []string{
	"NodeNotReady", "RDMAUnprepareFailed", "FailedKillPod", "Unhealthy",
	"Failed", "BackOff", "InspectFailed", "ErrImageNeverPull", "FailedPostStartHook",
}

// writers are the components whose events the package takes for a cause, by reason. Of the other reasons that it takes,
// they are the kubelet's.
var writers = map[string][]string{
	// It is the kubelet's with enableControllerAttachDetach: false.
	"FailedAttachVolume":          {"attachdetach-controller", "kubelet"},
	"FailedResourceClaimCreation": {"resource_claim"},
	"NodeNotReady":                {"node-controller"},
	"RDMAUnprepareFailed":         {rdma.Domain},
}

// isFromItsComponent reports whether an event names a component that writes events with its reason. Another event with
// that reason is no cause, but a warning like one of an unknown reason.
func isFromItsComponent(e *corev1.Event) bool {
	names, ok := writers[e.Reason]
	if !ok {
		return model.Reporter(e) == "kubelet"
	}
	return slices.Contains(names, model.Reporter(e))
}

// lastEvent returns the message of the newest event of its component with a reason, "" if there is none.
func (q *Question) lastEvent(reason string) string {
	for _, e := range slices.Backward(q.Events) {
		if e.Reason == reason && isFromItsComponent(&e) {
			return e.Message
		}
	}
	return ""
}

// lastEventAs returns a finding with the message of lastEvent, nothing if there is none.
func (q *Question) lastEventAs(reason string, k *finding.Kind, found, remedy string) []finding.Finding {
	message := q.lastEvent(reason)
	if message == "" {
		return nil
	}
	return []finding.Finding{problem(k, found+": "+text.Foreign(message), remedy, "node/"+q.Pod.Spec.NodeName)}
}

// preparationFailures finds where the kubelet stands before the first container. An event is past if a later step
// failed after it, and all are once the sandbox is there.
func (c *Causes) preparationFailures() (found []finding.Finding) {
	if sandboxReady(&c.q.Pod) {
		return nil
	}
	var now []*corev1.Event
	for i := range c.q.Events {
		e := &c.q.Events[i]
		step := preparation[e.Reason].step
		if step == 0 || !isFromItsComponent(e) || slices.ContainsFunc(c.q.Events[i+1:], func(l corev1.Event) bool {
			// Of a reason, the newest event counts; the times of events are seconds.
			return isFromItsComponent(&l) && (l.Reason == e.Reason && overall(&l) == overall(e) ||
				preparation[l.Reason].step > step && model.LastTime(&l).After(model.LastTime(e)))
		}) {
			continue
		}
		now = append(now, e)
	}
	slices.SortStableFunc(now, func(a, b *corev1.Event) int {
		return preparation[a.Reason].step - preparation[b.Reason].step
	})
	for _, e := range now {
		single := func(o *corev1.Event) bool { return o.Reason == e.Reason && !overall(o) }
		if overall(e) && slices.ContainsFunc(now, single) {
			continue
		}
		known := preparation[e.Reason]
		found = append(found, problem(known.kind, known.message+": "+text.Foreign(e.Message),
			c.preparationRemedy(known.kind, e.Message), "node/"+c.q.Pod.Spec.NodeName))
	}
	return found
}

// overall reports whether an event sums up what others say of single volumes.
func overall(e *corev1.Event) bool { return strings.Contains(e.Message, "unmounted volumes=") }

func (c *Causes) preparationRemedy(kind *finding.Kind, message string) string {
	pod := &c.q.Pod
	switch {
	case kind == prepareFailed:
		return "the kubelet tries again each 60 to 90 seconds; more is in the log of " + c.failedDriver(message)
	case kind == volumeFailed:
		return "create the config map, secret or volume that the message names: the pod goes on by itself"
	case pod.Spec.RuntimeClassName != nil && strings.Contains(message, "runtime"):
		return fmt.Sprintf("install the handler of RuntimeClass %s on node %s, or name another RuntimeClass in the pod",
			*pod.Spec.RuntimeClassName, pod.Spec.NodeName)
	}
	return fmt.Sprintf("repair what the message names on node %s, such as its CNI plugin: the pod goes on by itself",
		pod.Spec.NodeName)
}

// failedDriver names the driver that failed on the pod's node: that of the claim or driver that the kubelet's message
// names, or else any of the pod's claims. See prepareResources in pkg/kubelet/cm/dra/manager.go of Kubernetes.
func (c *Causes) failedDriver(message string) string {
	var named, all []string
	for _, w := range c.wanted {
		for _, r := range model.ResultsOf(w.claim) {
			all = model.AppendNew(all, r.Driver)
			if strings.Contains(message, w.claim.Name) || strings.Contains(message, r.Driver) {
				named = model.AppendNew(named, r.Driver)
			}
		}
	}
	if named == nil {
		named = all
	}
	for i, name := range named {
		named[i] = "driver " + name + " on that node"
		if pod := c.view.Drivers[c.q.Pod.Spec.NodeName]; name == rdma.Domain && pod != nil {
			named[i] = fmt.Sprintf("the driver: kubectl -n %s logs %s", text.Shell(pod.Namespace), text.Shell(pod.Name))
		}
	}
	if len(named) == 0 {
		return "the driver of its devices on that node"
	}
	return strings.Join(named, ", or of ")
}

// sandboxReady reports whether the pod has its sandbox. API servers before 1.29 have no condition for that.
func sandboxReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers {
			return c.Status == corev1.ConditionTrue
		}
	}
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), begun)
}

// mostWarnings is how many events of a pod are shown that the package does not know.
const mostWarnings = 3

// unknownWarnings returns the newest Warning events that nothing else explains. If nothing was found about a pod that
// has not started, it returns any.
func unknownWarnings(q *Question, found []finding.Finding) (out []finding.Finding) {
	pod := &q.Pod
	warning, any := problem, len(found) == 0 && !started(pod) && pod.DeletionTimestamp == nil
	if well(pod) {
		warning = note
	}
	shown := map[string]bool{}
	for _, e := range slices.Backward(q.Events) {
		_, known := preparation[e.Reason]
		passed := e.Reason == "FailedScheduling" || known && sandboxReady(pod) ||
			e.Reason == "FailedResourceClaimCreation" && isFromItsComponent(&e)
		if e.Type != corev1.EventTypeWarning || shown[e.Reason] || passed ||
			!any && isFromItsComponent(&e) && (known || slices.Contains(explainedBeside, e.Reason)) ||
			e.Reason == "RDMAPrepareFailed" && has(found, prepareFailed) {
			continue
		}
		if shown[e.Reason] = true; len(shown) > mostWarnings {
			break
		}
		out = append(out, warning(warningEvent,
			"event "+text.Foreign(fmt.Sprintf("%s of %s: %s", e.Reason, model.Reporter(&e), e.Message)), ""))
	}
	return out
}

// well reports whether a pod runs and is ready.
func well(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && started(pod) && (model.PodReady(pod) ||
		!slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.State.Running == nil && !endedWell(s.State)
		}))
}
