// Package why explains why a pod does not get the devices of its claims, or does not run with them.
package why

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// Question is a pod to explain, with the objects that only this question needs.
type Question struct {
	Pod corev1.Pod
	// Events are those of the pod and of its claims, oldest first.
	Events []corev1.Event
	// Templates says of ResourceClaimTemplates of the pod's namespace whether they exist. It lacks a
	// template that could not be read.
	Templates map[string]bool
	// NamespaceLabels are nil if they could not be read.
	NamespaceLabels map[string]string
	// Planned is nil for a pod that exists.
	Planned *Planned
}

// Verdict is the answer in one word.
type Verdict string

// The verdicts.
const (
	VerdictFine        Verdict = "fine"        // the pod has its devices and runs
	VerdictDone        Verdict = "done"        // the pod has ended
	VerdictNoClaims    Verdict = "noClaims"    // the pod asks for no devices
	VerdictBroken      Verdict = "broken"      // an object that the pod refers to is missing or unusable
	VerdictUnallocated Verdict = "unallocated" // no node has what the claims ask for
	VerdictSchedulable Verdict = "schedulable" // the claims fit, and the scheduler has not bound the pod
	VerdictUnprepared  Verdict = "unprepared"  // the devices are allocated, and the pod does not start
	VerdictImpaired    Verdict = "impaired"    // the pod runs, and its devices or containers have a fault
	VerdictEnding      Verdict = "ending"      // the pod is being deleted
	VerdictUnknown     Verdict = "unknown"     // what decides could not be read
)

// Fits reports whether the verdict on a pod that does not exist is that it gets its devices now, or wants none.
func (v Verdict) Fits() bool { return v == VerdictSchedulable || v == VerdictNoClaims }

// Answer explains a pod.
type Answer struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Of is the object of a manifest that would make the pod. The phase of a pod that does not exist is Planned.
	Of      string  `json:"of,omitempty"`
	Phase   string  `json:"phase"`
	Node    string  `json:"node,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Summary is the answer in a sentence.
	Summary  string            `json:"summary"`
	Findings []finding.Finding `json:"findings,omitempty"`
	Claims   []ClaimAnswer     `json:"claims,omitempty"`
	// Remedies are changes after which the claims would fit; see [Remedy].
	Remedies []Remedy `json:"remedies,omitempty"`
	// Scheduler is the scheduler's message about the pod.
	Scheduler string `json:"scheduler,omitempty"`
	// Unread is what could not be read, which the answer may lack.
	Unread []string `json:"unread,omitempty"`

	unseen  string // of what decides whether claims fit: the end of a sentence
	answers int    // of the allocator: the first is about the claims as they are, others about changes
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

// inquiry is the state of one Explain.
type inquiry struct {
	view    *model.View
	q       Question
	a       Answer
	wanted  []*wanted
	unknown []finding.Finding // objects of the pod that could not be read
	// open are the nodes where the pod can go, closed the others, and reasons says by name why not to these.
	open, closed []*corev1.Node
	reasons      map[string]string
}

// wanted is a claim that the pod needs, and its name in the pod.
type wanted struct {
	in    string
	claim *resourceapi.ResourceClaim
	// resources are the extended resources for which the scheduler makes the claim itself.
	resources []corev1.ResourceName
}

// extended reports whether the scheduler makes the claim.
func (w *wanted) extended() bool { return len(w.resources) > 0 }

// Explain explains a pod. The context bounds the search for remedies, which takes time on a large
// cluster. When it ends, the answer has the remedies found so far. The error is for missing
// data without which there is no answer.
func Explain(ctx context.Context, c *model.Cluster, q Question) (*Answer, error) {
	w := &inquiry{view: withPlanned(c, q.Planned).View(), q: q}
	w.a = Answer{
		Namespace: q.Pod.Namespace, Pod: q.Pod.Name, Phase: model.Phase(&q.Pod), Node: q.Pod.Spec.NodeName,
		Scheduler: schedulerSays(&q.Pod), Unread: c.Unread.Why(),
		unseen: c.Unread.Unseen(schedulable.Looks...),
	}
	if q.Planned != nil {
		w.a.Phase, w.a.Of = "Planned", q.Planned.Of
	}
	if err := w.answer(ctx); err != nil {
		return nil, fmt.Errorf("explain pod %s/%s: %w", q.Pod.Namespace, q.Pod.Name, err)
	}
	return &w.a, nil
}

func (w *inquiry) answer(ctx context.Context) error {
	c := CausesOf(w.view, &w.q)
	w.wanted, w.unknown, w.a.Findings = c.wanted, c.unknown, c.Found
	pod := &w.q.Pod
	switch {
	case pod.DeletionTimestamp != nil:
		w.concludeEnding()
	case model.Ended(pod):
		w.concludeEnded()
		return nil
	case len(w.wanted) == 0 && c.broken+len(c.unknown) == 0:
		unseen := ""
		if len(extendedResources(pod)) > 0 {
			unseen = w.view.Cluster.Unread.Unseen(extendedResourceUnknown.Looks...)
		}
		w.conclude(VerdictNoClaims, "it asks for no device by a claim or an extended resource of a DeviceClass%s", unseen)
		return nil
	case c.broken > 0:
		w.conclude(VerdictBroken, "%s", w.a.Findings[0].Message)
	}
	if err := w.explainPending(ctx); err != nil {
		return err
	}
	w.concludeAllocated()
	return nil
}

func (w *inquiry) find(f ...finding.Finding) {
	w.a.Findings = append(w.a.Findings, seen(w.view.Cluster.Unread, f)...)
}

// schedulerSays returns the scheduler's message about a waiting pod.
func schedulerSays(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// Planned is set in a question about a pod that does not exist.
type Planned struct {
	Of string
	// Claims are those that Kubernetes would make for the pod from templates.
	Claims []resourceapi.ResourceClaim
}

// withPlanned returns the cluster with the claims of a planned pod.
func withPlanned(c *model.Cluster, p *Planned) *model.Cluster {
	if p == nil {
		return c
	}
	more := *c
	more.Claims = slices.Concat(c.Claims, p.Claims)
	return &more
}
