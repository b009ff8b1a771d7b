package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var (
	schedulingGated      = Kinds.Kind("SchedulingGated", podRead)
	claimUnknown         = Kinds.Kind("ClaimUnknown", podRead)
	templateMissing      = Kinds.Kind("TemplateMissing", templatesRead)
	claimRefused         = Kinds.Kind("ClaimRefused", eventsRead)
	adminAccessForbidden = Kinds.Kind("AdminAccessForbidden", eventsRead)
	adminLabelMissing    = Kinds.Kind("AdminLabelMissing", namespaceRead)
	quotaExceeded        = Kinds.Kind("QuotaExceeded", eventsRead)
	claimNotCreated      = Kinds.Kind("ClaimNotCreated", templatesRead, eventsRead)
	claimMissing         = Kinds.Kind("ClaimMissing", claimsRead)
	claimOfOther         = Kinds.Kind("ClaimOfOther", claimsRead)
	claimDeleted         = Kinds.Kind("ClaimDeleted", claimsRead)
	claimFull            = Kinds.Kind("ClaimFull", claimsRead)
	classMissing         = Kinds.Kind("ClassMissing", classesRead)
	claimNotNamed        = Kinds.Kind("ClaimNotNamed", podRead)
)

// resolver finds the claims of a pod, and what is wrong with them whatever devices there are.
type resolver struct {
	view     *model.View
	q        *Question
	wanted   []*wanted
	findings []finding.Finding
	// unknown are objects that could not be read, so that nobody can tell whether they exist.
	unknown []finding.Finding
	// unnamed are claims that no container names.
	unnamed []finding.Finding
}

func (w *resolver) find(f ...finding.Finding) { w.findings = append(w.findings, f...) }

// cannotTell adds an object of a kind that could not be read.
func (w *resolver) cannotTell(kind model.Kind, what string) {
	w.unknown = append(w.unknown, unread(what+" could not be read", kind))
}

// resolve finds the claims that the pod needs, and problems with their references.
func (w *resolver) resolve() {
	pod := &w.q.Pod
	for i := range pod.Spec.ResourceClaims {
		w.resolveClaim(&pod.Spec.ResourceClaims[i])
	}
	w.extendedClaim()
	if gates := pod.Spec.SchedulingGates; len(gates) > 0 && pod.Spec.NodeName == "" {
		w.find(problem(schedulingGated,
			fmt.Sprintf("the pod has the scheduling gate %s: the scheduler does not look at it", gates[0].Name),
			"whoever set the gate removes it"))
	}
}

func (w *resolver) resolveClaim(ref *corev1.PodResourceClaim) {
	pod := &w.q.Pod
	name, mustCheckOwner, err := resourceclaim.Name(pod, ref)
	switch {
	case err != nil && ref.ResourceClaimTemplateName != nil:
		w.notCreated(ref)
	case err != nil:
		w.find(problem(claimUnknown,
			fmt.Sprintf("claim %s of the pod: %v", ref.Name, err),
			"", "claim/"+ref.Name))
	case name == nil: // the controller found that the pod needs no claim
	default:
		w.resolveNamed(ref, *name, mustCheckOwner)
		w.checkNamed(ref.Name)
	}
}

// notCreated explains why a template has no claim.
func (w *resolver) notCreated(ref *corev1.PodResourceClaim) {
	template, namespace := *ref.ResourceClaimTemplateName, w.q.Pod.Namespace
	refused := w.q.lastEvent("FailedResourceClaimCreation")
	said := fmt.Sprintf("claim %s could not be created from ResourceClaimTemplate %s: %s",
		ref.Name, template, text.Foreign(refused))
	policy := policyRemedy(refused)
	there, known := w.q.Templates[template]
	var f finding.Finding
	switch {
	case known && !there:
		f = problem(templateMissing,
			fmt.Sprintf("ResourceClaimTemplate %s, the template of claim %s, does not exist in namespace %s",
				template, ref.Name, namespace), "create the template: the pod goes on by itself")
	case policy != "":
		f = problem(claimRefused, said, policy)
	case strings.Contains(refused, "admin access"):
		f = problem(adminAccessForbidden,
			fmt.Sprintf("claim %s asks for admin access, which was refused: %s", ref.Name, text.Foreign(refused)),
			adminRemedy(namespace))
	case strings.Contains(refused, "exceeded quota"):
		_, quota, _ := strings.Cut(refused, "exceeded quota: ")
		quota, _, _ = strings.Cut(quota, ",")
		f = problem(quotaExceeded, fmt.Sprintf("claim %s exceeds the ResourceQuota %s of namespace %s: %s",
			ref.Name, text.Foreign(quota), namespace, text.Foreign(refused)),
			"end pods whose claims the quota counts, or ask an administrator for more: the pod goes on by itself, "+
				"within minutes")
	case refused != "":
		f = problem(claimRefused, said, "correct the template, then create the pod again")
	default:
		f = problem(claimNotCreated,
			fmt.Sprintf("no claim has been made from ResourceClaimTemplate %s yet", template),
			"wait; if it stays so, look at the log of kube-controller-manager")
	}
	f.Subjects = []string{"claim/" + ref.Name}
	w.find(f)
}

// policyRemedy returns what to do about a refusal that is a rule of the site, whatever it says of the object, "" for
// another refusal. The words are those of k8s.io/apiserver/pkg/admission of Kubernetes 1.37: plugin/webhook/errors,
// plugin/policy/validating (ValidatingAdmissionPolicy) and plugin/namespace/lifecycle.
func policyRemedy(refused string) string {
	switch {
	case strings.Contains(refused, "because it is being terminated"):
		return "the namespace is being deleted: create the pod in another one"
	case strings.Contains(refused, "failed calling webhook"):
		return "ask who runs that webhook: it does not answer; the pod goes on by itself when it does"
	case strings.Contains(refused, "admission webhook "), strings.Contains(refused, "ValidatingAdmissionPolicy '"):
		return "do in the template what the policy asks, or ask who runs it; then create the pod again"
	}
	return ""
}

func adminRemedy(namespace string) string {
	return fmt.Sprintf("use another class, or ask an administrator for: kubectl label namespace %s %s=true",
		namespace, resourceapi.DRAAdminNamespaceLabelKey)
}

func (w *resolver) resolveNamed(ref *corev1.PodResourceClaim, name string, mustCheckOwner bool) {
	pod := &w.q.Pod
	claim := w.view.Claims[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
	if claim == nil && w.view.Cluster.Unread.Has(model.OwnClaims) {
		w.cannotTell(model.OwnClaims, "ResourceClaim "+name)
		return
	}
	if claim == nil {
		f := problem(claimMissing,
			fmt.Sprintf("ResourceClaim %s does not exist in namespace %s", name, pod.Namespace),
			"create the claim: the pod goes on by itself", "claim/"+name)
		if ref.ResourceClaimTemplateName != nil {
			f.Remedy = "somebody deleted the claim that was made for this pod: create the pod again"
		}
		w.find(f)
		return
	}
	if mustCheckOwner {
		if err := resourceclaim.IsForPod(pod, claim, true); err != nil {
			w.find(problem(claimOfOther,
				err.Error(),
				"delete that claim, or rename the pod", "claim/"+name))
			return
		}
	}
	w.wanted = append(w.wanted, &wanted{in: ref.Name, claim: claim})
	w.checkClaim(claim)
}

// checkClaim finds reasons, other than devices, why a claim cannot be allocated or
// used.
func (w *resolver) checkClaim(claim *resourceapi.ResourceClaim) {
	pod := &w.q.Pod
	if claim.DeletionTimestamp != nil {
		w.find(problem(claimDeleted,
			fmt.Sprintf("ResourceClaim %s is being deleted, and no pod can begin to use it", claim.Name),
			"end the pods that still use it"+usedBy(claim)+", then create it again", "claim/"+claim.Name))
	}
	reserved := len(claim.Status.ReservedFor)
	if reserved >= resourceapi.ResourceClaimReservedForMaxSize && !resourceclaim.IsReservedForPod(pod, claim, true) {
		w.find(problem(claimFull,
			fmt.Sprintf("ResourceClaim %s is used by %d pods, the most that may use it at once",
				claim.Name, reserved),
			"give further pods a claim of their own", "claim/"+claim.Name))
	}
	w.checkClasses(claim)
	w.find(checkParameters(w.view.Classes, claim)...)
	w.checkAdmin(claim)
}

// checkAdmin finds a claim with an administrator's access whose namespace has lost the label for it.
// Kubernetes, not the driver, refuses the access.
func (w *resolver) checkAdmin(claim *resourceapi.ResourceClaim) {
	if w.q.NamespaceLabels == nil || w.q.NamespaceLabels[resourceapi.DRAAdminNamespaceLabelKey] == "true" {
		return
	}
	for _, r := range model.RequestsOf(claim) {
		if r.Admin {
			w.find(problem(adminLabelMissing,
				fmt.Sprintf("request %s asks for admin access, and namespace %s lacks the label %s=true",
					r.Name, claim.Namespace, resourceapi.DRAAdminNamespaceLabelKey),
				adminRemedy(claim.Namespace), "claim/"+claim.Name, "request/"+r.Name))
		}
	}
}

// checkClasses finds classes that do not exist. A missing class in a firstAvailable list is as
// bad as elsewhere: the scheduler gives up on the pod.
func (w *resolver) checkClasses(claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation != nil {
		return
	}
	for _, r := range model.RequestsOf(claim) {
		switch {
		case w.view.Classes[r.Class] != nil:
		case w.view.Cluster.Unread.Has(model.Classes):
			w.cannotTell(model.Classes, fmt.Sprintf("DeviceClass %s, of request %s,", r.Class, r.Name))
		default:
			w.find(problem(classMissing,
				fmt.Sprintf("DeviceClass %s, of request %s, does not exist", r.Class, r.Name),
				classRemedy(r.Class)+", or name one of: "+w.view.Classes.Names(), "claim/"+claim.Name, "request/"+r.Name))
		}
	}
}

// classRemedy says who makes a class: the installation of a driver.
func classRemedy(class string) string {
	switch {
	case class == "hca."+rdma.Domain || strings.HasSuffix(class, ".hca."+rdma.Domain):
		return "the chart of the driver creates it (deviceClasses.create)"
	case strings.HasSuffix(class, rdma.Domain):
		return "whoever administers the driver creates it (deviceClasses.extra of the chart)"
	}
	return "install the driver of its devices, which brings the class"
}

// checkNamed finds a claim that no container names: the kubelet prepares it, and gives it to none.
// https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#workloads
func (w *resolver) checkNamed(name string) {
	spec := &w.q.Pod.Spec
	if len(spec.Containers) > 0 && !slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), names(name)) {
		w.unnamed = append(w.unnamed, problem(claimNotNamed,
			fmt.Sprintf("no container names claim %s, so none of them gets its devices", name),
			fmt.Sprintf("name it in a container, resources: {claims: [{name: %s}]}, and create the pod again", name),
			"claim/"+name))
	}
}

// names returns whether a container names a claim of the pod.
func names(claim string) func(corev1.Container) bool {
	return func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Resources.Claims, func(r corev1.ResourceClaim) bool { return r.Name == claim })
	}
}
