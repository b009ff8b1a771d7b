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

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
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

// Result is what a look at the release found.
type Result struct {
	// Findings are what works, and last the first problem if there is one.
	Findings []finding.Finding
	// Final reports that waiting cannot change the result.
	Final bool
}

// Kinds are the kinds of findings. Their looks are objects of the API server: without one there is no result.
var Kinds finding.Catalogue

var (
	driversReady     = Kinds.Kind("drivers", "daemonsets", "pods", "events")
	devicesPublished = Kinds.Kind("devices", "resourceslices", "pods")
	testPodRuns      = Kinds.Kind("test-pod", "replicasets", "pods", "events")
)

// Judge judges a release. The checks have the order in which a pod gets its HCA.
func Judge(s State) Result {
	var v Result
	for _, check := range []func(State) (finding.Finding, bool){drivers, devices, testPod} {
		found, final := check(s)
		v.Findings, v.Final = append(v.Findings, found), final
		if found.Severity.Bad() {
			break
		}
	}
	return v
}

// drivers checks that each node that should run the driver runs this version, and that it is ready.
func drivers(s State) (finding.Finding, bool) {
	status, name := s.Drivers.Status, s.Drivers.Namespace+"/"+s.Drivers.Name
	wanted := int(status.DesiredNumberScheduled)
	switch {
	case status.ObservedGeneration < s.Drivers.Generation:
		return driversReady.Found(finding.Error, "the DaemonSet controller has not read DaemonSet "+name+" yet").
			Do("is kube-controller-manager running?"), false
	case wanted == 0:
		return driversReady.Found(finding.Error, "no node runs the driver: DaemonSet "+name+" matches no node").
			Do("compare the values nodeSelector and affinity with: kubectl get nodes --show-labels"), false
	case int(status.CurrentNumberScheduled) < wanted:
		return driversReady.Found(finding.Error, fmt.Sprintf("DaemonSet %s has pods on %d of %s%s",
			name, status.CurrentNumberScheduled, text.Count(wanted, "node"), s.lastWarning(s.Drivers.Name))).
			Do("if Pod Security refuses them: kubectl label namespace " + s.Drivers.Namespace +
				" pod-security.kubernetes.io/enforce=privileged"), false
	case int(status.NumberReady) < wanted:
		return driversReady.Found(finding.Error, fmt.Sprintf("the driver is ready on %d of %s%s",
			status.NumberReady, text.Count(wanted, "node"), s.notReady())).
			Do("read its log: kubectl --namespace " + s.Drivers.Namespace + " logs " + s.logOf()), false
	case int(status.UpdatedNumberScheduled) < wanted:
		return driversReady.Found(finding.Error, fmt.Sprintf("an older driver runs on %d of %s",
			wanted-int(status.UpdatedNumberScheduled), text.Count(wanted, "node"))).
			Do("wait: kubectl --namespace " + s.Drivers.Namespace + " rollout status daemonset/" + s.Drivers.Name), false
	}
	return driversReady.Found(finding.OK, "the driver is ready on "+text.Count(wanted, "node")), false
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
func devices(s State) (finding.Finding, bool) {
	count, nodes := published(s)
	if count == 0 {
		return devicesPublished.Found(finding.Error, "the drivers run, and publish no device").
			Do(fmt.Sprintf("the driver of a node says why: kubectl --namespace %s exec daemonset/%s -- dra-driver status",
				s.Drivers.Namespace, s.Drivers.Name)), false
	}
	works := fmt.Sprintf("%s published on %s", text.Count(count, "device"), text.Count(len(nodes), "node"))
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
	return devicesPublished.Found(finding.OK, works), false
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
func testPod(s State) (finding.Finding, bool) {
	if len(s.TestPods) == 0 {
		return testPodRuns.Found(finding.Error, "the test pod cannot be created"+s.lastWarning(s.Test.Name)).
			Do("does a quota or an admission policy refuse it?"), false
	}
	p := s.TestPods[0]
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			count, nodes := published(s)
			return testPodRuns.Found(finding.Error, fmt.Sprintf(
				"the test pod is not scheduled: %s published on %s, and the scheduler says: %s",
				text.Count(count, "device"), text.Count(len(nodes), "node"), text.Foreign(c.Message))).
				Do("if the devices are in use (kubectl rdma claims), end a pod with an HCA, or set testDeviceClasses"), false
		}
	}
	where := "the test pod on node " + p.Spec.NodeName
	for _, c := range p.Status.ContainerStatuses {
		end := firstEnd(c)
		switch {
		case end != nil && end.ExitCode == 0:
			return testPodRuns.Found(finding.OK, where+" has an HCA: "+strings.TrimSpace(end.Message)), true
		case end != nil:
			return testPodRuns.Found(finding.Error, where+" failed: "+lastLine(end.Message, end.Reason)), true
		}
	}
	if p.Spec.NodeName == "" {
		return testPodRuns.Found(finding.Error, "the test pod waits for the scheduler").
			Do("is kube-scheduler running?"), false
	}
	return testPodRuns.Found(finding.Error, where+" does not start"+s.lastWarning(p.Name)).
		Do("look at the driver there: kubectl --namespace " + p.Namespace + " logs " + s.driverOn(p.Spec.NodeName)), false
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
