package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
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
	all := pod.Status.ContainerStatuses
	return started(pod) && !slices.ContainsFunc(all, func(s corev1.ContainerStatus) bool {
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

// containers finds the containers that do not start, end with an error, or are not ready. Init containers come first:
// the others wait for them.
func (c *Causes) containers() {
	pod := &c.Q.Pod
	beside := func(name string) bool { // an init container that goes on beside the others
		return slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool {
			return i.Name == name && ptr.Deref(i.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
		})
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if s.State.Running != nil && !beside(s.Name) {
			if c.runsAgain("init container "+s.Name, s) {
				continue
			}
			c.find(Finding{
				Reason: "InitContainerRuns", Minor: true,
				Message: fmt.Sprintf("init container %s runs, and the containers start after it", s.Name),
			})
			continue
		}
		c.container("init container", "initContainers", s)
	}
	for _, s := range pod.Status.ContainerStatuses {
		c.container("container", "containers", s)
	}
}

func (c *Causes) container(noun, field string, s corev1.ContainerStatus) {
	name := noun + " " + s.Name
	last := s.LastTerminationState.Terminated
	switch w := s.State.Waiting; {
	case w != nil && begun(corev1.ContainerStatus{State: s.State}):
		message := name + " waits: " + w.Reason
		if last != nil {
			message += " (it ended: " + endOf(last) + ")"
		}
		if w.Message != "" {
			message += ": " + text.Foreign(w.Message)
		}
		c.find(Finding{Reason: "ContainerWaiting", Message: message, Remedy: c.waitingRemedy(s)})
	case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
		c.find(Finding{
			Reason:  "ContainerFailed",
			Message: name + " ended: " + endOf(s.State.Terminated),
			Remedy:  c.endRemedy(s.State.Terminated, s.Name, ""),
		})
	default:
		c.runsAgain(name, s)
	}
	if s.State.Running != nil && !s.Ready {
		c.notReady(name, fmt.Sprintf("spec.%s{%s}", field, s.Name))
	}
}

// runsAgain finds a container that runs after it ended with an error, and reports whether it does.
func (c *Causes) runsAgain(name string, s corev1.ContainerStatus) bool {
	last := s.LastTerminationState.Terminated
	if s.State.Running == nil || last == nil || last.ExitCode == 0 {
		return false
	}
	c.find(Finding{
		Reason: "ContainerFailed", Minor: s.Ready && c.view.Cluster.Now.Sub(s.State.Running.StartedAt.Time) > stable,
		Message: fmt.Sprintf("%s runs after %s: it ended: %s",
			name, text.Count(int(s.RestartCount), "restart"), endOf(last)),
		Remedy: c.endRemedy(last, s.Name, " --previous"),
	})
	return true
}

// notReady finds a container that runs and is not ready. Only a failed probe is a fault: others may need their time.
func (c *Causes) notReady(name, path string) {
	f := Finding{Reason: "ContainerNotReady", Minor: true, Message: name + " runs, and is not ready yet"}
	for _, e := range slices.Backward(c.Q.Events) {
		if e.Reason == "Unhealthy" && e.InvolvedObject.FieldPath == path {
			f.Minor = false
			f.Message = name + " runs, and is not ready: " + text.Foreign(e.Message)
			f.Remedy = "repair what the probe asks, or the probe: that is not about its devices"
			break
		}
	}
	c.find(f)
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

func (c *Causes) endRemedy(t *corev1.ContainerStateTerminated, container, previous string) string {
	if t.Reason == "OOMKilled" {
		return "raise limits.memory of the container: locked memory counts"
	}
	if aboutDevices(t.Message) {
		return deviceRemedy
	}
	return fmt.Sprintf("read why: kubectl -n %s logs %s -c %s%s", text.Shell(c.Q.Pod.Namespace), text.Shell(c.Q.Pod.Name),
		text.Shell(container), previous)
}

// deviceRemedy is for messages of a container runtime about what the driver gave it.
const deviceRemedy = "that is about its devices: docs/troubleshooting.md, \"A pod stays ContainerCreating\""

// aboutDevices reports whether a container runtime speaks of CDI or of the driver's hook.
func aboutDevices(message string) bool {
	return strings.Contains(message, "CDI") || strings.Contains(message, "rdma")
}

func (c *Causes) waitingRemedy(s corev1.ContainerStatus) string {
	w, last := s.State.Waiting, s.LastTerminationState.Terminated
	switch {
	case aboutDevices(w.Message):
		return deviceRemedy
	case last != nil && w.Reason == "CrashLoopBackOff":
		return c.endRemedy(last, s.Name, " --previous")
	case w.Reason == "CreateContainerConfigError":
		return "create what the message names, such as a config map or a secret: the pod goes on by itself"
	case strings.Contains(w.Reason, "Image"):
		return "correct the image's name, or give the pod access to it: that is not about its devices"
	}
	return fmt.Sprintf("that is not about its devices: kubectl -n %s describe pod %s",
		text.Shell(c.Q.Pod.Namespace), text.Shell(c.Q.Pod.Name))
}

// readinessGates finds the conditions that others set before the pod is ready.
func (c *Causes) readinessGates() {
	if conditionOf(&c.Q.Pod, corev1.ContainersReady, corev1.ConditionTrue) == nil {
		return
	}
	for _, gate := range c.Q.Pod.Spec.ReadinessGates {
		if conditionOf(&c.Q.Pod, gate.ConditionType, corev1.ConditionTrue) == nil {
			c.find(Finding{
				Reason:  "ReadinessGate",
				Message: fmt.Sprintf("its containers are ready, and its readiness gate %s is not true", gate.ConditionType),
				Remedy:  "whoever sets this condition has not: look at that controller",
			})
		}
	}
}
