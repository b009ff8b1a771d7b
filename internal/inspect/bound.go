package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// bound concludes on a pod whose claims have their devices.
func (w *inquiry) bound() {
	pod := &w.Question.Pod
	cause := foremost(w.Findings)
	switch {
	case len(w.unknown) > 0 && pod.Spec.NodeName == "":
		w.conclude(VerdictUnknown, "nobody can tell whether it could have its devices: %s", w.unknown[0].Message)
	case len(w.unknown) > 0 && (cause == nil || cause.minor):
		w.conclude(VerdictUnknown, "nobody can tell whether it has its devices: %s", w.unknown[0].Message)
	case pod.Spec.NodeName == "":
		w.conclude(VerdictSchedulable, "its claims are allocated: %s", w.waitsFor())
	case started(pod):
		w.running(cause)
	case cause == nil:
		w.conclude(VerdictUnprepared, "its devices are allocated, and %s yet; nothing is known to be wrong", notStarted(pod))
	case len(w.unknown) > 0:
		w.conclude(VerdictUnprepared, "%s: %s", notStarted(pod), cause.Message)
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
	case len(w.unknown) > 0 || w.reported("ClaimNotNamed"):
		w.conclude(VerdictImpaired, "its containers have started: %s", cause.Message)
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
				remedy := "see docs/health.md; when the device is back the pod can go on, else create it again"
				if s.Driver != driver {
					remedy = "look at the documents and the log of driver " + s.Driver
				}
				out = append(out, Finding{
					Reason: "DeviceNotReady", Claim: claim.Name, Devices: []string{name}, Remedy: remedy,
					Message: fmt.Sprintf("device %s of claim %s is not ready: %s", name, claim.Name,
						text.Foreign(c.Reason+": "+c.Message)),
				})
			}
		}
	}
	if v.Cluster.Unread.has(Slices) {
		return out
	}
	for _, r := range resultsOf(claim) {
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		d := v.known[id]
		if d == nil {
			out = append(out, Finding{
				Reason: "DeviceNotPublished", Claim: claim.Name, Devices: []string{deviceName(id)},
				Message: fmt.Sprintf("device %s of claim %s is in no ResourceSlice", deviceName(id), claim.Name),
				Remedy:  lostRemedy(r),
			})
			continue
		}
		taints := untolerated(d, r.Tolerations)
		by, at := evictedBy(d, r.Tolerations)
		for _, t := range by {
			taints = appendNew(taints, t)
		}
		if len(taints) > 0 {
			out = append(out, Finding{
				Reason: "DeviceTainted", Claim: claim.Name, Devices: []string{d.String()},
				Message: fmt.Sprintf("device %s of claim %s has the taint %s", d, claim.Name, taintNames(taints)) +
					evictionNote(by, at.Sub(v.Now), at),
				Remedy: taintRemedy(taints[0]),
			})
		}
	}
	return out
}

// lostRemedy says where to look for a device that no slice has.
func lostRemedy(r resourceapi.DeviceRequestAllocationResult) string {
	if r.Driver != driver {
		return fmt.Sprintf("driver %s does not run there, or lost the device: look at its pods and its log", r.Driver)
	}
	return "the driver on that node does not run, or lost the device: kubectl rdma nodes " + text.Shell(r.Pool)
}

// evictionNote says when Kubernetes ends the pod because of taints, and how long that is from now; "" for none.
func evictionNote(by []taint, left time.Duration, at time.Time) string {
	switch {
	case len(by) == 0:
		return ""
	case left <= 0:
		return ": Kubernetes evicts the pod"
	default:
		return fmt.Sprintf(": Kubernetes evicts the pod at %s, in %s", text.Time(at), duration.HumanDuration(left))
	}
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
