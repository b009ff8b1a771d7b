package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// The verdicts that say good, or that nothing more is known.
var (
	fine        = Kinds.Kind(string(VerdictFine), claimsRead, slicesRead, rulesRead, nodesRead, eventsRead)
	schedulable = Kinds.Kind(string(VerdictSchedulable), claimsRead, allClaimsRead, classesRead, slicesRead, rulesRead,
		nodesRead, namespaceRead)
	_          = Kinds.Kind(string(VerdictNoClaims), podRead)
	unprepared = Kinds.Kind(string(VerdictUnprepared), claimsRead, classesRead, slicesRead, rulesRead, nodesRead,
		driversRead, eventsRead)
	ending = Kinds.Kind(string(VerdictEnding), classesRead, nodesRead, driversRead, eventsRead)
)

// concludeAllocated concludes on a pod whose claims have their devices.
func (w *inquiry) concludeAllocated() {
	pod := &w.q.Pod
	cause := foremost(w.a.Findings)
	unseen := ""
	if cause == nil || cause.Severity == finding.Info {
		unseen = w.view.Cluster.Unread.Unseen(unprepared.Looks...)
	}
	switch {
	case len(w.unknown) > 0 && pod.Spec.NodeName == "":
		w.conclude(VerdictUnknown, "nobody can tell whether it could have its devices: %s", w.unknown[0].Message)
	case len(w.unknown) > 0 && (cause == nil || cause.Severity != finding.Error):
		w.conclude(VerdictUnknown, "nobody can tell whether it has its devices: %s", w.unknown[0].Message)
	case pod.Spec.NodeName == "":
		w.conclude(VerdictSchedulable, "its claims are allocated%s: %s", w.a.unseen, w.waitsFor())
	case started(pod):
		w.concludeRunning(cause)
	case cause == nil:
		w.conclude(VerdictUnprepared, "its devices are allocated, and %s yet; nothing is known to be wrong%s",
			notStarted(pod), unseen)
	case len(w.unknown) > 0:
		w.conclude(VerdictUnprepared, "%s: %s%s", notStarted(pod), cause.Message, unseen)
	default:
		w.conclude(VerdictUnprepared, "its devices are allocated, and %s: %s%s", notStarted(pod), cause.Message, unseen)
	}
}

// concludeRunning concludes on a pod whose containers have all run.
func (w *inquiry) concludeRunning(cause *finding.Finding) {
	switch {
	case cause == nil || cause.Severity != finding.Error && cause.ID != containersEnded.ID:
		w.conclude(VerdictFine, "it has its devices, and its containers have started%s",
			w.view.Cluster.Unread.Unseen(fine.Looks...))
	case strings.HasPrefix(cause.ID, "Device"):
		w.conclude(VerdictImpaired, "it runs, and something is wrong with its devices: %s", cause.Message)
	case len(w.unknown) > 0 || has(w.a.Findings, claimNotNamed):
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

// concludeEnding concludes on a pod that is being deleted.
func (w *inquiry) concludeEnding() {
	if cause := foremost(w.a.Findings); cause != nil && cause.Severity == finding.Error {
		w.conclude(VerdictEnding, "it is being deleted, and has not ended: %s", cause.Message)
	}
	grace := ptr.Deref(w.q.Pod.DeletionGracePeriodSeconds, 0)
	w.conclude(VerdictEnding, "it is being deleted: its containers have %s to end%s", text.Count(int(grace), "second"),
		w.view.Cluster.Unread.Unseen(ending.Looks...))
}

// concludeEnded concludes on a pod that has ended.
func (w *inquiry) concludeEnded() {
	why := ""
	if len(w.a.Findings) > 0 {
		why = ": " + w.a.Findings[0].Message
	}
	w.conclude(VerdictDone, "it has ended (%s) and does not use its claims any more%s", w.q.Pod.Status.Phase, why)
}

// conclude sets the verdict. Only the first call counts: it is the problem to solve first.
func (w *inquiry) conclude(v Verdict, format string, args ...any) {
	if w.a.Verdict == "" {
		w.a.Verdict, w.a.Summary = v, fmt.Sprintf(format, args...)
	}
}
