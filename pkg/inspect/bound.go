package inspect

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/internal/quote"
)

// driverLabel is the chart's label of the driver's pods: app.kubernetes.io/name.
const (
	driverLabel = "app.kubernetes.io/name"
	driverApp   = "dra-driver-rdma"
)

// DriverSelector selects the pods of the driver.
const DriverSelector = driverLabel + "=" + driverApp

// bound explains a pod whose claims have their devices: why it does not start, or which devices of a
// running pod have a fault.
func (w *inquiry) bound() {
	pod := &w.Question.Pod
	before := len(w.Findings)
	for _, want := range w.wanted {
		if want.claim.Status.Allocation != nil {
			w.find(w.faults(want.claim)...)
		}
	}
	switch {
	case pod.Spec.NodeName == "":
		w.conclude(VerdictSchedulable,
			"its claims are allocated, and it waits for the scheduler: see what the scheduler says")
	case started(pod):
		if len(w.Findings) > before {
			w.conclude(VerdictImpaired, "it runs, and something is wrong with its devices: %s", w.Findings[before].Message)
		}
		w.conclude(VerdictFine, "it has its devices, and its containers have started")
	default:
		for _, want := range w.wanted {
			w.checkContainers(want)
		}
		w.notStarted()
	}
}

// checkContainers finds a claim of a PodGroup that only init containers name. The kubelet does not list these for the
// driver, unless they go on beside the others.
func (w *inquiry) checkContainers(want *wanted) {
	pod := &w.Question.Pod
	names := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Resources.Claims, func(r corev1.ResourceClaim) bool { return r.Name == want.in })
	}
	listed := slices.ContainsFunc(pod.Spec.Containers, names) ||
		slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return names(c) && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
	if listed || len(podGroupsOf(want.claim)) == 0 || resourceclaim.IsReservedForPod(pod, want.claim, false) {
		return
	}
	w.find(Finding{
		Reason: "ClaimOfInitContainers", Claim: want.claim.Name,
		Message: fmt.Sprintf("claim %s is reserved for a PodGroup, and no container of this pod names it besides init "+
			"containers: its node's driver cannot see that the pod uses it", want.claim.Name),
		Remedy: "name the claim in a container that is no init container",
	})
}

// started reports whether a container of the pod ran, so that its sandbox has its devices.
func started(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
	})
}

// faults are what is wrong with the devices of a claim: the driver's conditions, taints, and devices that are not
// published any more. It says nothing of published devices if the slices could not be read.
func (v *view) faults(claim *resourceapi.ResourceClaim) (out []Finding) {
	for _, s := range claim.Status.Devices {
		for _, c := range s.Conditions {
			if c.Type == "Ready" && c.Status == metav1.ConditionFalse {
				name := deviceName(structured.MakeDeviceID(s.Driver, s.Pool, s.Device))
				out = append(out, Finding{
					Reason: "DeviceNotReady", Claim: claim.Name, Devices: []string{name},
					Message: fmt.Sprintf("device %s of claim %s is not ready: %s (%s)", name, claim.Name, c.Message, c.Reason),
					Remedy:  "see docs/health.md; when the device is back the pod can go on, else create it again",
				})
			}
		}
	}
	if v.unread("resourceslices") {
		return out
	}
	for _, r := range resultsOf(claim) {
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		d := v.known[id]
		if d == nil {
			out = append(out, Finding{
				Reason: "DeviceNotPublished", Claim: claim.Name, Devices: []string{deviceName(id)},
				Message: fmt.Sprintf("device %s of claim %s is in no ResourceSlice", deviceName(id), claim.Name),
				Remedy:  "the driver on that node does not run, or lost the device: kubectl rdma nodes",
			})
			continue
		}
		if taints := untolerated(d, r.Tolerations); len(taints) > 0 {
			out = append(out, Finding{
				Reason: "DeviceTainted", Claim: claim.Name, Devices: []string{d.String()},
				Message: fmt.Sprintf("device %s of claim %s has the taint %s", d, claim.Name, taintNames(taints)),
				Remedy:  taintRemedy(taints[0]),
			})
		}
	}
	return out
}

func taintRemedy(taint taint) string {
	switch {
	case taint.rule != "":
		return "ask who made the rule (kubectl get devicetaintrule " + quote.Shell(taint.rule) +
			"), or tolerate the taint in the request"
	case strings.HasPrefix(taint.Key, driver+"/"):
		return "repair the cause (docs/health.md explains " + taint.Key + "), or tolerate the taint in the request"
	}
	return "repair the cause, or tolerate the taint in the request"
}

// notStarted explains a pod that has a node, but no container yet.
func (w *inquiry) notStarted() {
	pod := &w.Question.Pod
	if node := w.nodes[pod.Spec.NodeName]; node != nil && !nodeReady(node) && node.Status.Conditions != nil {
		w.find(Finding{
			Reason: "NodeNotReady", Node: node.Name,
			Message: "node " + node.Name + " is not ready", Remedy: "look at its kubelet",
		})
	}
	if slices.ContainsFunc(w.wanted, func(want *wanted) bool { return claimNode(want.claim) != "" }) {
		w.checkDriver(pod.Spec.NodeName)
	}
	if message := w.lastEvent("FailedPrepareDynamicResources"); message != "" {
		w.find(Finding{
			Reason: "PrepareFailed", Node: pod.Spec.NodeName,
			Message: "the devices could not be prepared: " + oneLine(message),
			Remedy:  "the kubelet tries again each 60 to 90 seconds; the driver's log on that node says more",
		})
		w.conclude(VerdictUnprepared, "node %s cannot prepare its devices: %s", pod.Spec.NodeName, oneLine(message))
	}
	w.find(waitingContainers(pod)...)
	if len(w.Findings) > 0 {
		w.conclude(VerdictUnprepared, "its devices are allocated, and it has not started: %s", w.Findings[0].Message)
	}
	w.conclude(VerdictUnprepared, "its devices are allocated, and it has not started yet; nothing is known to be wrong")
}

// waitingContainers are the containers that wait for something else than their devices.
func waitingContainers(pod *corev1.Pod) (out []Finding) {
	for _, s := range pod.Status.ContainerStatuses {
		waiting := s.State.Waiting
		if waiting != nil && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
			message := fmt.Sprintf("container %s waits: %s: %s", s.Name, waiting.Reason, waiting.Message)
			out = append(out, Finding{
				Reason: "ContainerWaiting", Message: strings.TrimSuffix(message, ": "),
				Remedy: "that is not about its devices: kubectl describe pod " + pod.Name,
			})
		}
	}
	return out
}

// checkDriver checks the driver's pod on a node.
func (w *inquiry) checkDriver(node string) {
	d := driverOn(w.Pods, node)
	switch {
	case d == nil && w.unread("pods"):
	case d == nil:
		w.find(Finding{
			Reason: "DriverMissing", Node: node, Message: "no pod of the driver runs on node " + node,
			Remedy: "look at the DaemonSet dra-driver-rdma: its node selector, and whether it tolerates the node's taints",
		})
	case !podReady(d):
		w.find(Finding{
			Reason: "DriverNotReady", Node: node,
			Message: fmt.Sprintf("the driver's pod %s/%s on node %s is not ready", d.Namespace, d.Name, node),
			Remedy:  "kubectl -n " + quote.Shell(d.Namespace) + " logs " + quote.Shell(d.Name),
		})
	}
}

// unread reports whether a kind of object could not be read.
func (c *Cluster) unread(kind string) bool {
	return slices.ContainsFunc(c.Unread, func(u string) bool { return strings.Contains(u, kind) })
}

// driverOn returns the driver's pod on a node. During an update there may be two; it prefers a
// ready one.
func driverOn(pods []corev1.Pod, node string) *corev1.Pod {
	var found *corev1.Pod
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName == node && isDriver(p) && (found == nil || podReady(p)) {
			found = p
		}
	}
	return found
}

// isDriver reports whether a pod belongs to the DaemonSet. The chart's jobs have its label
// too.
func isDriver(pod *corev1.Pod) bool {
	return pod.Labels[driverLabel] == driverApp && pod.DeletionTimestamp == nil &&
		!slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind != "DaemonSet" })
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
