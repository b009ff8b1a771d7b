package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// resolver finds the claims of a pod, and what is wrong with them whatever devices there are.
type resolver struct {
	*view
	Question
	wanted   []*wanted
	findings []Finding
}

func (w *resolver) find(f ...Finding) { w.findings = append(w.findings, f...) }

// resolve finds the claims that the pod needs, and problems with their references.
func (w *resolver) resolve() {
	pod := &w.Question.Pod
	for i := range pod.Spec.ResourceClaims {
		w.resolveClaim(&pod.Spec.ResourceClaims[i])
	}
	w.extendedClaim()
	if gates := pod.Spec.SchedulingGates; len(gates) > 0 && pod.Spec.NodeName == "" {
		w.find(Finding{
			Reason:  "SchedulingGated",
			Message: fmt.Sprintf("the pod has the scheduling gate %s: the scheduler does not look at it", gates[0].Name),
			Remedy:  "whoever set the gate removes it",
		})
	}
}

func (w *resolver) resolveClaim(ref *corev1.PodResourceClaim) {
	pod := &w.Question.Pod
	name, mustCheckOwner, err := resourceclaim.Name(pod, ref)
	switch {
	case err != nil && ref.ResourceClaimTemplateName != nil:
		w.notCreated(ref)
	case err != nil:
		w.find(Finding{
			Reason: "ClaimUnknown", Claim: ref.Name, Message: fmt.Sprintf("claim %s of the pod: %v", ref.Name, err),
		})
	case name == nil: // the controller found that the pod needs no claim
	default:
		w.resolveNamed(ref, *name, mustCheckOwner)
	}
}

// notCreated explains why a template has no claim.
func (w *resolver) notCreated(ref *corev1.PodResourceClaim) {
	template := *ref.ResourceClaimTemplateName
	f := Finding{Claim: ref.Name}
	refused := w.lastEvent("FailedResourceClaimCreation")
	there, known := w.Templates[template]
	switch {
	case known && !there:
		f.Reason = "TemplateMissing"
		f.Message = fmt.Sprintf("ResourceClaimTemplate %s, the template of claim %s, does not exist in namespace %s",
			template, ref.Name, w.Question.Pod.Namespace)
		f.Remedy = "create the template: the pod goes on by itself"
	case strings.Contains(refused, "admin access"):
		f.Reason = "AdminAccessForbidden"
		f.Message = fmt.Sprintf("claim %s asks for admin access, which was refused: %s", ref.Name, text.Foreign(refused))
		f.Remedy = adminRemedy(w.Question.Pod.Namespace)
	case strings.Contains(refused, "exceeded quota"):
		f.Reason = "QuotaExceeded"
		_, quota, _ := strings.Cut(refused, "exceeded quota: ")
		quota, _, _ = strings.Cut(quota, ",")
		f.Message = fmt.Sprintf("claim %s exceeds the ResourceQuota %s of namespace %s: %s",
			ref.Name, text.Foreign(quota), w.Question.Pod.Namespace, text.Foreign(refused))
		f.Remedy = "end pods whose claims the quota counts, or ask an administrator for more: the pod goes on by itself, " +
			"within minutes"
	case refused != "":
		f.Reason = "ClaimRefused"
		f.Message = fmt.Sprintf("claim %s could not be created from ResourceClaimTemplate %s: %s",
			ref.Name, template, text.Foreign(refused))
		f.Remedy = "correct the template, then create the pod again"
	default:
		f.Reason = "ClaimNotCreated"
		f.Message = fmt.Sprintf("no claim has been made from ResourceClaimTemplate %s yet", template)
		f.Remedy = "wait; if it stays so, look at the log of kube-controller-manager"
	}
	w.find(f)
}

func adminRemedy(namespace string) string {
	return fmt.Sprintf("use another class, or ask an administrator for: kubectl label namespace %s %s=true",
		namespace, resourceapi.DRAAdminNamespaceLabelKey)
}

func (w *resolver) resolveNamed(ref *corev1.PodResourceClaim, name string, mustCheckOwner bool) {
	pod := &w.Question.Pod
	claim := w.claims[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
	if claim == nil {
		f := Finding{
			Reason: "ClaimMissing", Claim: name, Remedy: "create the claim: the pod goes on by itself",
			Message: fmt.Sprintf("ResourceClaim %s does not exist in namespace %s", name, pod.Namespace),
		}
		if ref.ResourceClaimTemplateName != nil {
			f.Remedy = "somebody deleted the claim that was made for this pod: create the pod again"
		}
		w.find(f)
		return
	}
	if mustCheckOwner {
		if err := resourceclaim.IsForPod(pod, claim, true); err != nil {
			w.find(Finding{
				Reason: "ClaimOfOther", Claim: name, Message: err.Error(), Remedy: "delete that claim, or rename the pod",
			})
			return
		}
	}
	w.wanted = append(w.wanted, &wanted{in: ref.Name, claim: claim})
	w.checkClaim(claim)
}

// checkClaim finds reasons, other than devices, why a claim cannot be allocated or
// used.
func (w *resolver) checkClaim(claim *resourceapi.ResourceClaim) {
	pod := &w.Question.Pod
	if claim.DeletionTimestamp != nil {
		w.find(Finding{
			Reason: "ClaimDeleted", Claim: claim.Name,
			Message: fmt.Sprintf("ResourceClaim %s is being deleted, and no pod can begin to use it", claim.Name),
			Remedy:  "end the pods that still use it" + usedBy(claim) + ", then create it again",
		})
	}
	reserved := len(claim.Status.ReservedFor)
	if reserved >= resourceapi.ResourceClaimReservedForMaxSize && !resourceclaim.IsReservedForPod(pod, claim, true) {
		w.find(Finding{
			Reason: "ClaimFull", Claim: claim.Name,
			Message: fmt.Sprintf("ResourceClaim %s is used by %d pods, the most that may use it at once",
				claim.Name, reserved),
			Remedy: "give further pods a claim of their own",
		})
	}
	w.checkClasses(claim)
	w.find(w.classes.checkParameters(claim)...)
	w.checkAdmin(claim)
}

// checkAdmin finds a claim with an administrator's access whose namespace has lost the label for it.
// Kubernetes, not the driver, refuses the access.
func (w *resolver) checkAdmin(claim *resourceapi.ResourceClaim) {
	if w.NamespaceLabels == nil || w.NamespaceLabels[resourceapi.DRAAdminNamespaceLabelKey] == "true" {
		return
	}
	for _, r := range requestsOf(claim) {
		if r.admin {
			w.find(Finding{
				Reason: "AdminAccessForbidden", Claim: claim.Name, Request: r.name,
				Message: fmt.Sprintf("request %s asks for admin access, and namespace %s lacks the label %s=true",
					r.name, claim.Namespace, resourceapi.DRAAdminNamespaceLabelKey),
				Remedy: adminRemedy(claim.Namespace),
			})
		}
	}
}

// checkClasses finds classes that do not exist. A missing class in a firstAvailable list is as
// bad as elsewhere: the scheduler gives up on the pod.
func (w *resolver) checkClasses(claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation != nil {
		return
	}
	for _, r := range requestsOf(claim) {
		if w.classes[r.class] == nil {
			w.find(Finding{
				Reason: "ClassMissing", Claim: claim.Name, Request: r.name,
				Message: fmt.Sprintf("DeviceClass %s, of request %s, does not exist", r.class, r.name),
				Remedy:  "create the class, or name one of: " + w.classes.names(),
			})
		}
	}
}

func (c classes) names() string {
	if len(c) == 0 {
		return "none (the cluster has no DeviceClass)"
	}
	return list(slices.Sorted(maps.Keys(c)), "", 10)
}
