package why

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
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// bound concludes on a pod whose claims have their devices.
func (w *inquiry) bound() {
	pod := &w.q.Pod
	cause := foremost(w.a.Findings)
	switch {
	case len(w.unknown) > 0 && pod.Spec.NodeName == "":
		w.conclude(VerdictUnknown, "nobody can tell whether it could have its devices: %s", w.unknown[0].Message)
	case len(w.unknown) > 0 && (cause == nil || cause.Minor):
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
	case cause == nil || cause.Minor && cause.Reason != "ContainersEnded":
		w.conclude(VerdictFine, "it has its devices, and its containers have started")
	case strings.HasPrefix(cause.Reason, "Device"):
		w.conclude(VerdictImpaired, "it runs, and something is wrong with its devices: %s", cause.Message)
	case len(w.unknown) > 0 || w.a.reported("ClaimNotNamed"):
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
	if cause := foremost(w.a.Findings); cause != nil && !cause.Minor {
		w.conclude(VerdictEnding, "it is being deleted, and has not ended: %s", cause.Message)
	}
	grace := ptr.Deref(w.q.Pod.DeletionGracePeriodSeconds, 0)
	w.conclude(VerdictEnding, "it is being deleted: its containers have %s to end", text.Count(int(grace), "second"))
}

// done concludes on a pod that has ended.
func (w *inquiry) done() {
	why := ""
	if len(w.a.Findings) > 0 {
		why = ": " + w.a.Findings[0].Message
	}
	w.conclude(VerdictDone, "it has ended (%s) and does not use its claims any more%s", w.q.Pod.Status.Phase, why)
}

// Faults are what is wrong with the devices of a claim: the driver's conditions, taints, and devices that are not
// published any more. It says nothing of published devices if the slices could not be read.
func Faults(v *model.View, claim *resourceapi.ResourceClaim) (out []Finding) {
	for _, s := range claim.Status.Devices {
		for _, c := range s.Conditions {
			if c.Type == "Ready" && c.Status == metav1.ConditionFalse {
				name := model.DeviceName(structured.MakeDeviceID(s.Driver, s.Pool, s.Device))
				remedy := "see docs/health.md; when the device is back the pod can go on, else create it again"
				if s.Driver != rdma.Domain {
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
	if v.Cluster.Unread.Has(model.Slices) {
		return out
	}
	for _, r := range model.ResultsOf(claim) {
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		d := v.Known[id]
		if d == nil {
			out = append(out, Finding{
				Reason: "DeviceNotPublished", Claim: claim.Name, Devices: []string{model.DeviceName(id)},
				Message: fmt.Sprintf("device %s of claim %s is in no ResourceSlice", model.DeviceName(id), claim.Name),
				Remedy:  lostRemedy(r),
			})
			continue
		}
		taints := model.Untolerated(d, r.Tolerations)
		by, at := model.EvictedBy(d, r.Tolerations)
		for _, t := range by {
			taints = model.AppendNew(taints, t)
		}
		if len(taints) > 0 {
			out = append(out, Finding{
				Reason: "DeviceTainted", Claim: claim.Name, Devices: []string{d.String()},
				Message: fmt.Sprintf("device %s of claim %s has the taint %s", d, claim.Name, model.TaintNames(taints)) +
					evictionNote(by, at.Sub(v.Cluster.Now), at),
				Remedy: taintRemedy(taints[0]),
			})
		}
	}
	return out
}

// lostRemedy says where to look for a device that no slice has.
func lostRemedy(r resourceapi.DeviceRequestAllocationResult) string {
	if r.Driver != rdma.Domain {
		return fmt.Sprintf("driver %s does not run there, or lost the device: look at its pods and its log", r.Driver)
	}
	return "the driver on that node does not run, or lost the device: kubectl rdma nodes " + text.Shell(r.Pool)
}

// evictionNote says when Kubernetes ends the pod because of taints, and how long that is from now; "" for none.
func evictionNote(by []model.Taint, left time.Duration, at time.Time) string {
	switch {
	case len(by) == 0:
		return ""
	case left <= 0:
		return ": Kubernetes evicts the pod"
	default:
		return fmt.Sprintf(": Kubernetes evicts the pod at %s, in %s", text.Time(at), duration.HumanDuration(left))
	}
}

func taintRemedy(taint model.Taint) string {
	switch {
	case taint.Drain != nil:
		command := text.Shells("kubectl", "rdma", "undrain", taint.Drain.Node)
		if taint.Drain.HCA != "" {
			command += " " + text.Shell(taint.Drain.HCA)
		}
		return "ask who drained it; when it is repaired: " + command
	case taint.Rule != "":
		return "ask who made the rule (kubectl get devicetaintrule " + text.Shell(taint.Rule) +
			"), or tolerate the taint in the request"
	case strings.HasPrefix(taint.Key, rdma.Domain+"/"):
		return "repair the cause (docs/health.md explains " + taint.Key + "), or tolerate the taint in the request"
	}
	return "repair the cause, or tolerate the taint in the request"
}

// ClaimAnswer is a claim of the pod.
type ClaimAnswer struct {
	// Name is the name of the ResourceClaim, "" for extended resources without one. In is its name
	// in the pod, or the extended resources of the claim.
	Name     string                 `json:"name,omitempty"`
	In       string                 `json:"in"`
	State    model.ClaimState       `json:"state"`
	Devices  []string               `json:"devices,omitempty"`
	Uses     []DeviceUse            `json:"uses,omitempty"`
	Requests []*model.RequestReport `json:"requests,omitempty"`
}
