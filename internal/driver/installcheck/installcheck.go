// Package installcheck judges an installed release of the chart, for helm test.
//
// Judge is a function of what the API server says: the driver's DaemonSet and pods, their ResourceSlices, and a test
// pod with a claim. It returns what works and the first problem, with what to do. Container judges from the inside
// of the test pod whether the pod got an HCA.
package installcheck

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// State is what the API server says of a release.
type State struct {
	Drivers    *appsv1.DaemonSet
	DriverPods []corev1.Pod
	// Slices are the ResourceSlices of the driver.
	Slices []resourceapi.ResourceSlice
	// Test is the controller of the test pod.
	Test     *appsv1.ReplicaSet
	TestPods []corev1.Pod
	// Warnings are the events of type Warning in the release's namespace.
	Warnings []corev1.Event
}

// Result is the result of the check of a release.
type Result struct {
	// Works lists what works.
	Works []string
	// Problem is the first problem, "" if the release works. It says what to do.
	Problem string
	// Final reports that waiting cannot change the result.
	Final bool
}

// Judge judges a release. The checks have the order in which a pod gets its HCA.
func Judge(s State) Result {
	var v Result
	for _, check := range []func(State) (works, problem string, final bool){drivers, devices, testPod} {
		works, problem, final := check(s)
		if problem != "" {
			v.Problem, v.Final = problem, final
			return v
		}
		v.Works = append(v.Works, works)
	}
	v.Final = true
	return v
}

// drivers checks that each node that should run the driver runs this version, and that it is ready.
func drivers(s State) (works, problem string, _ bool) {
	status, name := s.Drivers.Status, s.Drivers.Namespace+"/"+s.Drivers.Name
	wanted := int(status.DesiredNumberScheduled)
	switch {
	case status.ObservedGeneration < s.Drivers.Generation:
		return "", "the DaemonSet controller has not read DaemonSet " + name + " yet: is kube-controller-manager running?",
			false
	case wanted == 0:
		return "", fmt.Sprintf("no node runs the driver: DaemonSet %s matches no node; "+
			"compare the values nodeSelector and affinity with: kubectl get nodes --show-labels", name), false
	case int(status.CurrentNumberScheduled) < wanted:
		return "", fmt.Sprintf("DaemonSet %s has pods on %d of %s%s; "+
			"if Pod Security refuses them: kubectl label namespace %s pod-security.kubernetes.io/enforce=privileged",
			name, status.CurrentNumberScheduled, text.Count(wanted, "node"), s.lastWarning(s.Drivers.Name),
			s.Drivers.Namespace), false
	case int(status.NumberReady) < wanted:
		return "", fmt.Sprintf("the driver is ready on %d of %s%s; read its log: kubectl --namespace %s logs %s",
			status.NumberReady, text.Count(wanted, "node"), s.notReady(), s.Drivers.Namespace, s.logOf()), false
	case int(status.UpdatedNumberScheduled) < wanted:
		return "", fmt.Sprintf("an older driver runs on %d of %s; "+
			"wait: kubectl --namespace %s rollout status daemonset/%s", wanted-int(status.UpdatedNumberScheduled),
			text.Count(wanted, "node"), s.Drivers.Namespace, s.Drivers.Name), false
	}
	return "the driver is ready on " + text.Count(wanted, "node"), "", false
}

// notReady names the drivers that are not ready, each with its reason.
func (s State) notReady() string {
	var found []string
	for _, p := range s.DriverPods {
		if reason := unready(p); reason != "" {
			found = append(found, p.Spec.NodeName+" ("+reason+")")
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return ", not on " + text.Some(found, ", ")
}

// logOf names a driver's pod for kubectl logs: the first one that is not ready.
func (s State) logOf() string {
	for _, p := range s.DriverPods {
		if unready(p) != "" {
			return p.Name
		}
	}
	return "daemonset/" + s.Drivers.Name
}

// unready returns why a pod is not ready, "" if it is.
func unready(p corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if end := firstEnd(c); end != nil {
			return fmt.Sprintf("exit code %d: %s", end.ExitCode, lastLine(end.Message, end.Reason))
		}
		if w := c.State.Waiting; w != nil {
			return lastLine(w.Message, w.Reason)
		}
	}
	return "pod " + p.Name + " is " + strings.ToLower(string(p.Status.Phase)) + " and not ready"
}

// firstEnd returns how a container ended, nil if it has not ended yet.
func firstEnd(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.LastTerminationState.Terminated != nil {
		return c.LastTerminationState.Terminated
	}
	return c.State.Terminated
}

// lastLine returns in quotes the last line of a message without the program's name, or the reason if there is no message.
func lastLine(message, reason string) string {
	message = strings.TrimSpace(message)
	if message == "" {
		return text.Foreign(reason)
	}
	return text.Foreign(strings.TrimPrefix(message[strings.LastIndexByte(message, '\n')+1:], "dra-driver: "))
}

// lastWarning returns the newest warning about an object, with a colon before it, "" if there is none.
func (s State) lastWarning(object string) string {
	var newest corev1.Event
	for _, e := range s.Warnings {
		if e.InvolvedObject.Name == object && !e.LastTimestamp.Before(&newest.LastTimestamp) {
			newest = e
		}
	}
	if newest.Message == "" {
		return ""
	}
	return ": " + text.Foreign(newest.Message)
}

// devices checks that the drivers publish devices. A node without HCAs publishes none, so one node with devices is
// enough. The reasons stand in events of the nodes, which the check may not read.
func devices(s State) (works, problem string, _ bool) {
	count, nodes := published(s)
	if count == 0 {
		return "", fmt.Sprintf("the drivers run, and publish no device; "+
			"the driver of a node says why: kubectl --namespace %s exec daemonset/%s -- dra-driver status",
			s.Drivers.Namespace, s.Drivers.Name), false
	}
	works = fmt.Sprintf("%s published on %s", text.Count(count, "device"), text.Count(len(nodes), "node"))
	var without []string
	for _, p := range s.DriverPods {
		if !slices.Contains(nodes, p.Spec.NodeName) && !slices.Contains(without, p.Spec.NodeName) {
			without = append(without, p.Spec.NodeName)
		}
	}
	if len(without) > 0 {
		slices.Sort(without)
		works += fmt.Sprintf("; none on %s (dra-driver status in the driver there says why)", text.Some(without, ", "))
	}
	return works, "", false
}

// published returns the number of published devices, and the nodes that have some.
func published(s State) (count int, nodes []string) {
	for _, slice := range s.Slices {
		n := slice.Spec.NodeName
		if n == nil || len(slice.Spec.Devices) == 0 {
			continue
		}
		count += len(slice.Spec.Devices)
		if !slices.Contains(nodes, *n) {
			nodes = append(nodes, *n)
		}
	}
	return count, nodes
}

// testPod checks that the test pod got an HCA. Its container ends with code 0 if so.
func testPod(s State) (works, problem string, final bool) {
	if len(s.TestPods) == 0 {
		return "", fmt.Sprintf("the test pod cannot be created%s; does a quota or an admission policy refuse it?",
			s.lastWarning(s.Test.Name)), false
	}
	p := s.TestPods[0]
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			count, nodes := published(s)
			return "", fmt.Sprintf("the test pod is not scheduled: %s published on %s, and the scheduler says: %s. "+
				"If the devices are in use (kubectl rdma claims), end a pod with an HCA, or set testDeviceClasses",
				text.Count(count, "device"), text.Count(len(nodes), "node"), text.Foreign(c.Message)), false
		}
	}
	where := "the test pod on node " + p.Spec.NodeName
	for _, c := range p.Status.ContainerStatuses {
		end := firstEnd(c)
		switch {
		case end != nil && end.ExitCode == 0:
			return where + " has an HCA: " + strings.TrimSpace(end.Message), "", true
		case end != nil:
			return "", where + " failed: " + lastLine(end.Message, end.Reason), true
		}
	}
	if p.Spec.NodeName == "" {
		return "", "the test pod waits for the scheduler: is kube-scheduler running?", false
	}
	return "", fmt.Sprintf("%s does not start%s; look at the driver there: kubectl --namespace %s logs %s", where,
		s.lastWarning(p.Name), p.Namespace, s.driverOn(p.Spec.NodeName)), false
}

// driverOn names the driver's pod of a node for kubectl logs.
func (s State) driverOn(node string) string {
	for _, p := range s.DriverPods {
		if p.Spec.NodeName == node {
			return p.Name
		}
	}
	return "daemonset/" + s.Drivers.Name
}
