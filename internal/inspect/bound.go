package inspect

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// driverLabel is the chart's label of the driver's pods: app.kubernetes.io/name.
const (
	driverLabel = "app.kubernetes.io/name"
	driverApp   = "dra-driver-rdma"
)

// DriverSelector selects the pods of the driver.
const DriverSelector = driverLabel + "=" + driverApp

// bound concludes on a pod whose claims have their devices.
func (w *inquiry) bound() {
	pod := &w.Question.Pod
	cause := foremost(w.Findings)
	switch {
	case pod.Spec.NodeName == "":
		w.conclude(VerdictSchedulable,
			"its claims are allocated, and it waits for the scheduler: see what the scheduler says")
	case started(pod):
		w.running(cause)
	case cause == nil:
		w.conclude(VerdictUnprepared, "its devices are allocated, and %s yet; nothing is known to be wrong", notStarted(pod))
	default:
		w.conclude(VerdictUnprepared, "its devices are allocated, and %s: %s", notStarted(pod), cause.Message)
	}
}

// running concludes on a pod whose containers have all run.
func (w *inquiry) running(cause *Finding) {
	switch {
	case cause == nil || cause.minor && cause.Reason != "ContainersEnded":
		w.conclude(VerdictFine, "it has its devices, and its containers have started")
	case strings.HasPrefix(cause.Reason, "Device"):
		w.conclude(VerdictImpaired, "it runs, and something is wrong with its devices: %s", cause.Message)
	default:
		w.conclude(VerdictImpaired, "it has its devices, and its containers have started: %s", cause.Message)
	}
}

// notStarted says which of a pod's containers wait.
func notStarted(pod *corev1.Pod) string {
	if slices.ContainsFunc(pod.Status.ContainerStatuses, ran) {
		return "not all of its containers have started"
	}
	return "it has not started"
}

// ending concludes on a pod that is being deleted.
func (w *inquiry) ending() {
	if cause := foremost(w.Findings); cause != nil && !cause.minor {
		w.conclude(VerdictEnding, "it is being deleted, and has not ended: %s", cause.Message)
	}
	grace := deref(w.Question.Pod.DeletionGracePeriodSeconds)
	w.conclude(VerdictEnding, "it is being deleted: its containers have %s to end", text.Count(int(grace), "second"))
}

// done concludes on a pod that has ended.
func (w *inquiry) done() {
	why := ""
	if len(w.Findings) > 0 {
		why = ": " + w.Findings[0].Message
	}
	w.conclude(VerdictDone, "it has ended (%s) and does not use its claims any more%s", w.Question.Pod.Status.Phase, why)
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
					Message: fmt.Sprintf("device %s of claim %s is not ready: %s", name, claim.Name,
						text.Foreign(c.Reason+": "+c.Message)),
					Remedy: "see docs/health.md; when the device is back the pod can go on, else create it again",
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
				Remedy:  "the driver on that node does not run, or lost the device: kubectl rdma nodes " + text.Shell(r.Pool),
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
	case taint.drain != nil:
		command := text.Shells("kubectl", "rdma", "undrain", taint.drain.Node)
		if taint.drain.HCA != "" {
			command += " " + text.Shell(taint.drain.HCA)
		}
		return "ask who drained it; when it is repaired: " + command
	case taint.rule != "":
		return "ask who made the rule (kubectl get devicetaintrule " + text.Shell(taint.rule) +
			"), or tolerate the taint in the request"
	case strings.HasPrefix(taint.Key, driver+"/"):
		return "repair the cause (docs/health.md explains " + taint.Key + "), or tolerate the taint in the request"
	}
	return "repair the cause, or tolerate the taint in the request"
}

// unread reports whether a kind of object could not be read.
func (c *Cluster) unread(kind string) bool {
	return slices.ContainsFunc(c.Unread, func(u string) bool { return strings.Contains(u, kind) })
}

// driverPods returns the driver's pods by their nodes. During an update a node may have two, and a ready one counts.
func driverPods(pods []corev1.Pod) map[string]*corev1.Pod {
	out := map[string]*corev1.Pod{}
	for i := range pods {
		p := &pods[i]
		if isDriver(p) && (out[p.Spec.NodeName] == nil || podReady(p)) {
			out[p.Spec.NodeName] = p
		}
	}
	return out
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
