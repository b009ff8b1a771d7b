package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

// Causes is what keeps a pod from running with its devices, or from ending.
type Causes struct {
	view *model.View
	Q    *Question
	// Wanted are the claims that the pod needs. broken counts the first findings that are about their objects.
	Wanted []*Wanted
	broken int
	// unknown are objects of the pod that could not be read; found has them too.
	unknown []Finding
	// Found has the first cause first: claims, scheduling, node, driver, what the kubelet does before the containers,
	// devices, init containers, containers, readiness, what containers cannot use, and then the events that this package
	// does not know.
	Found []Finding
}

// CausesOf finds the causes of a pod. Why and ListPods have no other list of them.
func CausesOf(v *model.View, q *Question) *Causes {
	c := &Causes{view: v, Q: q}
	pod := &q.Pod
	if model.Ended(pod) && pod.DeletionTimestamp == nil {
		c.ended()
		return c
	}
	r := resolver{view: v, q: *q}
	r.resolve()
	c.Wanted, c.unknown = r.wanted, r.unknown
	switch {
	case pod.DeletionTimestamp != nil:
		c.ending()
	case len(r.wanted) == 0 && len(r.findings) == 0 && len(r.unknown) == 0: // it needs no device
		return c
	default:
		c.Found, c.broken = append(r.findings, r.unknown...), len(r.findings)
		if pod.Spec.NodeName == "" {
			c.unscheduled()
		} else {
			c.onNode()
		}
		c.find(r.unnamed...)
	}
	c.warnings()
	return c
}

func (c *Causes) find(f ...Finding) { c.Found = append(c.Found, f...) }

// foremost returns the first known cause that does not pass by itself, or else the first one, nil if there is none.
func foremost(found []Finding) *Finding {
	known := func(f Finding) bool { return !f.Minor && f.Reason != "WarningEvent" }
	if i := slices.IndexFunc(found, known); i >= 0 {
		return &found[i]
	}
	if len(found) > 0 {
		return &found[0]
	}
	return nil
}

// EndedByKubernetes reports whether Kubernetes ended a pod: evicted, refused by its node, on a lost node.
func EndedByKubernetes(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && (pod.Status.Reason != "" || disruption(pod) != nil)
}

func disruption(pod *corev1.Pod) *corev1.PodCondition {
	return conditionOf(pod, corev1.DisruptionTarget, corev1.ConditionTrue)
}

// conditionOf returns the condition of a type if it has a status, else nil.
func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind && c.Status == status {
			return c
		}
	}
	return nil
}

// ended says why Kubernetes ended a pod.
func (c *Causes) ended() {
	pod := &c.Q.Pod
	if !EndedByKubernetes(pod) {
		return
	}
	// rejectPod in pkg/kubelet/kubelet.go of Kubernetes: none of its containers ran.
	if said, ok := strings.CutPrefix(pod.Status.Message, "Pod was rejected: "); ok {
		c.find(Finding{
			Reason: "EndedByKubernetes", Node: pod.Spec.NodeName,
			Message: fmt.Sprintf("node %s refused it: %s", pod.Spec.NodeName, text.Foreign(pod.Status.Reason+": "+said)),
			Remedy: "repair what the message names: another pod, by its controller or by you, may be refused on this node, " +
				"too",
		})
		return
	}
	reason, message := pod.Status.Reason, pod.Status.Message
	if d := disruption(pod); reason == "" {
		reason, message = d.Reason, d.Message
	}
	c.find(Finding{
		Reason: "EndedByKubernetes", Node: pod.Spec.NodeName,
		Message: "Kubernetes ended it: " + text.Foreign(reason+": "+message),
		Remedy:  "its controller makes another pod; create a pod without one again",
	})
}

// unscheduled adds what the scheduler says of a pod whose claims have their devices. Why asks the allocator about the
// others.
func (c *Causes) unscheduled() {
	allocated := func(w *Wanted) bool { return w.Claim.Status.Allocation != nil }
	isPending := func(w *Wanted) bool { return !allocated(w) }
	for _, w := range c.Wanted {
		if allocated(w) {
			c.find(Faults(c.view, w.Claim)...)
			c.find(unbound(w.Claim)...)
		}
	}
	message := schedulerSays(&c.Q.Pod)
	if message == "" || len(c.Q.Pod.Spec.SchedulingGates) > 0 || len(c.Wanted) == 0 || c.broken+len(c.unknown) > 0 ||
		slices.ContainsFunc(c.Wanted, isPending) {
		return
	}
	c.find(Finding{
		Reason:  "Unschedulable",
		Message: "its claims are allocated, and the scheduler finds no node: " + text.Foreign(message),
		Remedy:  "make room for what the scheduler names",
	})
}

// onNode finds the causes of a pod on a node.
func (c *Causes) onNode() {
	pod := &c.Q.Pod
	c.node()
	finished := finished(pod)
	if !started(pod) || finished {
		c.driver()
	}
	if finished {
		c.lastEventAs("RDMAUnprepareFailed", unprepareFailed)
		c.find(Finding{
			Reason: "ContainersEnded", Minor: true,
			Message: "its containers have ended, and its node has not released its devices yet",
		})
		return
	}
	if !started(pod) {
		for _, w := range c.Wanted {
			c.onlyInitContainers(w)
		}
	}
	c.preparation()
	for _, w := range c.Wanted {
		if w.Claim.Status.Allocation != nil {
			c.find(Faults(c.view, w.Claim)...)
		}
	}
	c.containers()
	c.readinessGates()
	for _, w := range c.Wanted { // it keeps no container from starting, unless the claim asks for that
		c.find(Unusable(w.Claim)...)
	}
	if unknown := c.view.Cluster.Unread.Has(model.Events); unknown && !started(pod) && foremost(c.Found) == nil {
		f := unreadFinding("its events could not be read, so it is not known what is wrong", model.Events)
		f.Minor = false
		c.find(f)
	}
}

// node finds a node that is away. Without the nodes, the event of the node controller says so.
func (c *Causes) node() {
	pod := &c.Q.Pod
	name := pod.Spec.NodeName
	if name == "" {
		return
	}
	node := c.view.Nodes[name]
	switch {
	case node == nil && !c.view.Guessed:
		c.find(Finding{
			Reason: "NodeMissing", Node: name, Message: "node " + name + " does not exist any more",
			Remedy: "Kubernetes deletes the pod within a minute; a controller makes another",
		})
	case node != nil && node.Status.Conditions != nil && !model.NodeReady(node),
		c.view.Guessed && !model.PodReady(pod) && c.Q.lastEvent("NodeNotReady") != "":
		c.find(Finding{
			Reason: "NodeNotReady", Node: name, Message: "node " + name + " is not ready", Remedy: "look at its kubelet",
		})
	}
}

// driver checks the driver's pod on the node, which prepares and unprepares the claims with devices of this driver.
func (c *Causes) driver() {
	name := c.Q.Pod.Spec.NodeName
	if !slices.ContainsFunc(c.Wanted, func(w *Wanted) bool { return model.ClaimNode(w.Claim) != "" }) {
		return
	}
	d := c.view.Drivers[name]
	switch {
	case d == nil && c.view.Cluster.Unread.Has(model.Pods):
	case d == nil:
		c.find(Finding{
			Reason: "DriverMissing", Node: name,
			Message: fmt.Sprintf("no pod of the driver runs on node %s (%s)", name, c.view.Cluster.DriverPlace()),
			Remedy: "install the driver if helm list -A lacks it (docs/operate.md: if its namespace was deleted); else " +
				"look at its DaemonSet: the node selector, and whether it tolerates the node's taints",
		})
	case !model.PodReady(d):
		c.find(Finding{
			Reason: "DriverNotReady", Node: name,
			Message: fmt.Sprintf("the driver's pod %s/%s on node %s is not ready", d.Namespace, d.Name, name),
			Remedy:  "kubectl -n " + text.Shell(d.Namespace) + " logs " + text.Shell(d.Name),
		})
	}
}

// onlyInitContainers finds a claim of a PodGroup that only init containers name. The kubelet does not list these for
// the driver, unless they go on beside the others.
func (c *Causes) onlyInitContainers(w *Wanted) {
	pod := &c.Q.Pod
	names := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Resources.Claims, func(r corev1.ResourceClaim) bool { return r.Name == w.In })
	}
	listed := slices.ContainsFunc(pod.Spec.Containers, names) ||
		slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return names(c) && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
	if listed || len(model.PodGroupsOf(w.Claim)) == 0 || resourceclaim.IsReservedForPod(pod, w.Claim, false) {
		return
	}
	c.find(Finding{
		Reason: "ClaimOfInitContainers", Claim: w.Claim.Name,
		Message: fmt.Sprintf("claim %s is reserved for a PodGroup, and no container of this pod names it besides init "+
			"containers: its node's driver cannot see that the pod uses it", w.Claim.Name),
		Remedy: "name the claim in a container that is no init container",
	})
}

// ending finds what keeps a pod that is being deleted. Until the node has released its devices, the status of the pod
// says that its containers run.
func (c *Causes) ending() {
	pod := &c.Q.Pod
	if !model.Ended(pod) {
		c.node()
		c.driver()
		c.lastEventAs("RDMAUnprepareFailed", unprepareFailed)
		c.lastEventAs("FailedKillPod", Finding{
			Reason: "KillFailed", Message: "the kubelet cannot end its containers",
			Remedy: "look at the container runtime of node " + pod.Spec.NodeName,
		})
	}
	if len(pod.Finalizers) > 0 && (model.Ended(pod) || pod.Spec.NodeName == "") {
		c.find(Finding{
			Reason:  "Finalizers",
			Message: "it waits for its finalizers: " + text.Foreign(strings.Join(pod.Finalizers, ", ")),
			Remedy:  "whoever set a finalizer removes it",
		})
	}
	if d := disruption(pod); d != nil {
		c.find(Finding{
			Reason: "Evicted", Message: "it is evicted: " + text.Foreign(d.Reason+": "+d.Message),
		})
	}
}

var unprepareFailed = Finding{
	Reason: "UnprepareFailed", Message: "the driver cannot release its devices",
	Remedy: "the kubelet tries again; the driver's log on that node says more",
}
