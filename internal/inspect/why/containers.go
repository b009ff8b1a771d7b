package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

var (
	initContainerRuns = Kinds.Kind("InitContainerRuns", podRead)
	containerWaiting  = Kinds.Kind("ContainerWaiting", podRead)
	containerFailed   = Kinds.Kind("ContainerFailed", podRead)
	containerNotReady = Kinds.Kind("ContainerNotReady", eventsRead)
	readinessGate     = Kinds.Kind("ReadinessGate", podRead)
)

// started reports whether each container of the pod has run, so that the pod had its devices.
func started(pod *corev1.Pod) bool {
	all := pod.Status.ContainerStatuses
	return len(all) > 0 && len(all) >= len(pod.Spec.Containers) &&
		!slices.ContainsFunc(all, func(s corev1.ContainerStatus) bool { return !ran(s) })
}

// ran reports whether a container runs or has run.
func ran(s corev1.ContainerStatus) bool {
	begun := func(t *corev1.ContainerStateTerminated) bool {
		return t != nil && t.Reason != "StartError" && t.Reason != "ContainerCannotRun"
	}
	return s.State.Running != nil || begun(s.State.Terminated) || begun(s.LastTerminationState.Terminated)
}

// begun reports whether the kubelet works on a container, which it does only in a sandbox.
func begun(s corev1.ContainerStatus) bool {
	w := s.State.Waiting
	return ran(s) || s.LastTerminationState.Terminated != nil ||
		w != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, w.Reason)
}

// finished reports whether all containers of a pod have ended for good, although the pod has not.
func finished(pod *corev1.Pod) bool {
	return started(pod) && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		switch pod.Spec.RestartPolicy {
		case corev1.RestartPolicyNever:
			return s.State.Terminated == nil
		case corev1.RestartPolicyOnFailure:
			return !endedWell(s.State)
		}
		return true
	})
}

func endedWell(s corev1.ContainerState) bool {
	return s.Terminated != nil && s.Terminated.ExitCode == 0
}

// containerFailures finds the containers that do not start, end with an error, or are not ready now. Init containers
// come first: the others wait for them.
func containerFailures(q *Question, now time.Time) (found []finding.Finding) {
	for _, s := range q.Pod.Status.InitContainerStatuses {
		beside := slices.ContainsFunc(q.Pod.Spec.InitContainers, func(i corev1.Container) bool {
			return i.Name == s.Name && restarts(i)
		})
		c := container{q: q, name: "init container " + s.Name, path: "spec.initContainers{" + s.Name + "}", status: s}
		if s.State.Running == nil || beside {
			found = append(found, c.failures(now)...)
		} else if again := c.restart(now); again != nil {
			found = append(found, again...)
		} else {
			found = append(found, note(initContainerRuns, c.name+" runs, and the containers start after it", ""))
		}
	}
	for _, s := range q.Pod.Status.ContainerStatuses {
		c := container{q: q, name: "container " + s.Name, path: "spec.containers{" + s.Name + "}", status: s}
		found = append(found, c.failures(now)...)
	}
	return found
}

// container is a container of the pod that a question is about. path is what events call it.
type container struct {
	q          *Question
	name, path string
	status     corev1.ContainerStatus
}

func (c *container) failures(now time.Time) (found []finding.Finding) {
	s := &c.status
	last := s.LastTerminationState.Terminated
	switch w := s.State.Waiting; {
	case w != nil && begun(corev1.ContainerStatus{State: s.State}):
		message := c.name + " waits: " + w.Reason
		if last != nil {
			message += " (it ended: " + endOf(last) + ")"
		}
		if w.Message != "" {
			message += ": " + text.Foreign(w.Message)
		}
		found = append(found, problem(containerWaiting, message, c.waitingRemedy()))
	case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
		found = append(found, problem(containerFailed,
			c.name+" ended: "+endOf(s.State.Terminated), c.endRemedy(s.State.Terminated, "")))
	default:
		found = c.restart(now)
	}
	if s.State.Running != nil && !s.Ready {
		found = append(found, c.unready())
	}
	return found
}

// restart finds a container that runs after it ended with an error.
func (c *container) restart(now time.Time) []finding.Finding {
	s := &c.status
	last := s.LastTerminationState.Terminated
	if s.State.Running == nil || last == nil || last.ExitCode == 0 {
		return nil
	}
	failed := problem
	if s.Ready && now.Sub(s.State.Running.StartedAt.Time) > stable {
		failed = note
	}
	restarts := text.Count(int(s.RestartCount), "restart")
	return []finding.Finding{failed(containerFailed,
		fmt.Sprintf("%s runs after %s: it ended: %s", c.name, restarts, endOf(last)), c.endRemedy(last, " --previous"))}
}

// unready is the finding about a container that runs and is not ready. Only a failed probe is a fault: others may need
// their time.
func (c *container) unready() finding.Finding {
	for _, e := range slices.Backward(c.q.Events) {
		if e.Reason == "Unhealthy" && isFromItsComponent(&e) && e.InvolvedObject.FieldPath == c.path {
			return problem(containerNotReady, c.name+" runs, and is not ready: "+text.Foreign(e.Message),
				"repair what the probe asks, or the probe: that is not about its devices")
		}
	}
	return note(containerNotReady, c.name+" runs, and is not ready yet", "")
}

// stable is how long a container runs until the kubelet forgets that it failed.
const stable = 10 * time.Minute

// endOf says how a container ended.
func endOf(t *corev1.ContainerStateTerminated) string {
	said := fmt.Sprintf("%s, exit code %d", t.Reason, t.ExitCode)
	if t.Message != "" {
		said += ", " + text.Foreign(t.Message)
	}
	return strings.TrimPrefix(said, ", ")
}

func (c *container) endRemedy(t *corev1.ContainerStateTerminated, previous string) string {
	switch {
	case t.Reason == "OOMKilled":
		return "raise limits.memory of the container: locked memory counts"
	case aboutDevices(t.Message):
		return deviceRemedy
	}
	pod := &c.q.Pod
	return "read why: " + text.Shells("kubectl", "-n", pod.Namespace, "logs", pod.Name, "-c", c.status.Name) + previous
}

// deviceRemedy is for messages of a container runtime about what the driver gave it.
const deviceRemedy = "that is about its devices: docs/troubleshooting.md, \"A pod stays ContainerCreating\""

// aboutDevices reports whether a container runtime speaks of CDI or of the driver's hook.
func aboutDevices(message string) bool {
	return strings.Contains(message, "CDI") || strings.Contains(message, "rdma")
}

func (c *container) waitingRemedy() string {
	w, last, pod := c.status.State.Waiting, c.status.LastTerminationState.Terminated, &c.q.Pod
	switch {
	case aboutDevices(w.Message):
		return deviceRemedy
	case last != nil && w.Reason == "CrashLoopBackOff":
		return c.endRemedy(last, " --previous")
	case w.Reason == "CreateContainerConfigError":
		return "create what the message names, such as a config map or a secret: the pod goes on by itself"
	case strings.Contains(w.Reason, "Image"):
		return "correct the image's name, or give the pod access to it: that is not about its devices"
	}
	return "that is not about its devices: " + text.Shells("kubectl", "-n", pod.Namespace, "describe", "pod", pod.Name)
}

// readinessGates finds the conditions that others set before the pod is ready.
func readinessGates(pod *corev1.Pod) (found []finding.Finding) {
	if conditionOf(pod, corev1.ContainersReady, corev1.ConditionTrue) == nil {
		return nil
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if conditionOf(pod, gate.ConditionType, corev1.ConditionTrue) == nil {
			found = append(found, problem(readinessGate,
				fmt.Sprintf("its containers are ready, and its readiness gate %s is not true", gate.ConditionType),
				"whoever sets this condition has not: look at that controller"))
		}
	}
	return found
}
