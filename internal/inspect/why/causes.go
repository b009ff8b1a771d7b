package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
)

var (
	endedByKubernetes     = Kinds.Kind("EndedByKubernetes", podRead)
	unschedulable         = Kinds.Kind("Unschedulable", podRead)
	containersEnded       = Kinds.Kind("ContainersEnded", podRead)
	nodeMissing           = Kinds.Kind("NodeMissing", nodesRead)
	nodeNotReady          = Kinds.Kind("NodeNotReady", nodesRead)
	nodeReported          = Kinds.Kind("NodeReportedNotReady", eventsRead)
	driverMissing         = Kinds.Kind("DriverMissing", driversRead, classesRead)
	driverNotReady        = Kinds.Kind("DriverNotReady", driversRead)
	claimOfInitContainers = Kinds.Kind("ClaimOfInitContainers", claimsRead)
	killFailed            = Kinds.Kind("KillFailed", eventsRead)
	finalizers            = Kinds.Kind("Finalizers", podRead)
	evicted               = Kinds.Kind("Evicted", podRead)
	unprepareFailed       = Kinds.Kind("UnprepareFailed", eventsRead)
)

// Causes is what keeps a pod from running with its devices, or from ending.
type Causes struct {
	view *model.View
	q    *Question
	// wanted are the claims that the pod needs. broken counts the first findings that are about their objects.
	wanted []*wanted
	broken int
	// unknown are objects of the pod that could not be read; Found has them too.
	unknown []finding.Finding
	// Found has the first cause first: claims, scheduling, node, driver, what the kubelet does before the containers,
	// devices, init containers, containers, readiness, what containers cannot use, and then the events that this package
	// does not know.
	Found []finding.Finding
}

// CausesOf finds the causes of a pod. Explain and the list of pods have no other list of them.
func CausesOf(v *model.View, q *Question) *Causes {
	c := &Causes{view: v, q: q}
	pod := &q.Pod
	if model.Ended(pod) && pod.DeletionTimestamp == nil {
		c.Found = endOfPod(pod)
		return c
	}
	r := resolver{view: v, q: q}
	r.resolve()
	c.wanted, c.unknown = r.wanted, r.unknown
	switch {
	case pod.DeletionTimestamp != nil:
		c.Found = c.causesOfEnding()
	case len(r.wanted) == 0 && len(r.findings) == 0 && len(r.unknown) == 0: // it needs no device
		return c
	default:
		c.Found, c.broken = append(r.findings, r.unknown...), len(r.findings)
		if pod.Spec.NodeName == "" {
			c.Found = append(c.Found, c.causesBeforeNode()...)
		} else {
			c.Found = append(c.Found, c.causesOnNode()...)
		}
		c.Found = append(c.Found, r.unnamed...)
	}
	c.Found = seen(v.Cluster.Unread, append(c.Found, unknownWarnings(q, c.Found)...))
	return c
}

// Problems are the messages of what does not pass by itself, of what was not fully seen, of events that could not be
// read, and of extended resources without devices.
func (c *Causes) Problems() (out []string) {
	for _, f := range c.Found {
		notSeen := f.Severity == finding.NotSeen && (f.ID != Unread.ID || slices.Contains(f.Subjects, eventsRead))
		if f.Severity == finding.Error || notSeen {
			out = append(out, f.Message)
		}
	}
	for _, w := range c.wanted {
		if w.extended() && w.claim.Status.Allocation == nil && c.q.Pod.DeletionTimestamp == nil {
			out = append(out, fmt.Sprintf("no devices for %s yet: kubectl rdma why %s", w.in, c.q.Pod.Name))
		}
	}
	return out
}

// Claims returns the claims that the pod needs: those that exist, or those that the scheduler has yet to make.
func (c *Causes) Claims(exist bool) (out []*resourceapi.ResourceClaim) {
	for _, w := range c.wanted {
		if w.extended() != exist {
			out = model.AppendNew(out, w.claim)
		}
	}
	return out
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

// endOfPod says why Kubernetes ended a pod, nothing if it ended by itself.
func endOfPod(pod *corev1.Pod) []finding.Finding {
	if !EndedByKubernetes(pod) {
		return nil
	}
	node := pod.Spec.NodeName
	// rejectPod in pkg/kubelet/kubelet.go of Kubernetes: none of its containers ran.
	if said, ok := strings.CutPrefix(pod.Status.Message, "Pod was rejected: "); ok {
		return []finding.Finding{problem(endedByKubernetes,
			fmt.Sprintf("node %s refused it: %s", node, text.Foreign(pod.Status.Reason+": "+said)),
			"repair what the message names: another pod, by its controller or by you, may be refused on this node, too",
			"node/"+node)}
	}
	reason, message := pod.Status.Reason, pod.Status.Message
	if d := disruption(pod); reason == "" {
		reason, message = d.Reason, d.Message
	}
	return []finding.Finding{problem(endedByKubernetes, "Kubernetes ended it: "+text.Foreign(reason+": "+message),
		"its controller makes another pod; create a pod without one again", "node/"+node)}
}

// causesBeforeNode is what the scheduler says of a pod whose claims have their devices. Explain asks the allocator
// about the others.
func (c *Causes) causesBeforeNode() (found []finding.Finding) {
	pending := len(c.wanted) == 0
	for _, w := range c.wanted {
		if w.claim.Status.Allocation == nil {
			pending = true
			continue
		}
		found = append(append(found, Faults(c.view, w.claim)...), unbound(w.claim)...)
	}
	message := schedulerSays(&c.q.Pod)
	if message == "" || len(c.q.Pod.Spec.SchedulingGates) > 0 || c.broken+len(c.unknown) > 0 || pending {
		return found
	}
	return append(found, problem(unschedulable,
		"its claims are allocated, and the scheduler finds no node: "+text.Foreign(message),
		"make room for what the scheduler names"))
}

// causesOnNode finds the causes of a pod on a node.
func (c *Causes) causesOnNode() (found []finding.Finding) {
	add := func(f ...finding.Finding) { found = append(found, f...) }
	pod := &c.q.Pod
	add(c.nodeAway()...)
	finished := finished(pod)
	if !started(pod) || finished {
		add(c.driverAway()...)
	}
	if finished {
		add(c.q.unprepareFailures()...)
		add(note(containersEnded, "its containers have ended, and its node has not released its devices yet", ""))
		return found
	}
	if !started(pod) {
		for _, w := range c.wanted {
			add(onlyInitContainers(pod, w)...)
		}
	}
	add(c.preparationFailures()...)
	for _, w := range c.wanted {
		if w.claim.Status.Allocation != nil {
			add(Faults(c.view, w.claim)...)
		}
	}
	add(containerFailures(c.q, c.view.Cluster.Now)...)
	add(readinessGates(pod)...)
	for _, w := range c.wanted { // it keeps no container from starting, unless the claim asks for that
		add(Unusable(w.claim)...)
	}
	if c.view.Cluster.Unread.Has(model.Events) && !started(pod) && len(found)+len(c.Found) == 0 {
		add(unread("its events could not be read, so it is not known what is wrong", model.Events))
	}
	return found
}

// nodeAway finds a node that is away. Without the nodes, the event of the node controller says so.
func (c *Causes) nodeAway() []finding.Finding {
	pod := &c.q.Pod
	name := pod.Spec.NodeName
	node := c.view.Nodes[name]
	switch {
	case name == "":
	case node == nil && !c.view.Guessed:
		return []finding.Finding{problem(nodeMissing, "node "+name+" does not exist any more",
			"Kubernetes deletes the pod within a minute; a controller makes another", "node/"+name)}
	case node != nil && node.Status.Conditions != nil && !model.NodeReady(node):
		return []finding.Finding{problem(nodeNotReady, "node "+name+" is not ready", "look at its kubelet", "node/"+name)}
	case c.view.Guessed && !model.PodReady(pod):
		return c.q.lastEventAs("NodeNotReady", nodeReported,
			"the node controller says of node "+name+c.view.Cluster.Unread.Unseen(nodesRead), "look at its kubelet")
	}
	return nil
}

// driverAway checks the driver's pod on the node, which prepares and unprepares the claims with devices of this driver.
func (c *Causes) driverAway() []finding.Finding {
	name := c.q.Pod.Spec.NodeName
	d := c.view.Drivers[name]
	ours := func(w *wanted) bool { return model.ClaimNode(w.claim) != "" }
	switch {
	case !slices.ContainsFunc(c.wanted, ours), d == nil && c.view.Cluster.DriversUnread():
	case d == nil:
		return []finding.Finding{problem(driverMissing,
			fmt.Sprintf("no pod of the driver runs on node %s (%s)", name, c.view.Cluster.DriverPlace()),
			"install the driver if helm list -A lacks it (docs/operate.md: if its namespace was deleted); else "+
				"look at its DaemonSet: the node selector, and whether it tolerates the node's taints", "node/"+name)}
	case !model.PodReady(d):
		return []finding.Finding{problem(driverNotReady,
			fmt.Sprintf("the driver's pod %s/%s on node %s is not ready", d.Namespace, d.Name, name),
			"kubectl -n "+text.Shell(d.Namespace)+" logs "+text.Shell(d.Name), "node/"+name)}
	}
	return nil
}

// onlyInitContainers finds a claim of a PodGroup that only init containers name. The kubelet does not list these for
// the driver, unless they go on beside the others.
func onlyInitContainers(pod *corev1.Pod, w *wanted) []finding.Finding {
	named := names(w.in)
	listed := slices.ContainsFunc(pod.Spec.Containers, named) ||
		slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return named(c) && restarts(c) })
	if listed || len(model.PodGroupsOf(w.claim)) == 0 || resourceclaim.IsReservedForPod(pod, w.claim, false) {
		return nil
	}
	return []finding.Finding{problem(claimOfInitContainers,
		fmt.Sprintf("claim %s is reserved for a PodGroup, and no container of this pod names it besides init "+
			"containers: its node's driver cannot see that the pod uses it", w.claim.Name),
		"name the claim in a container that is no init container", "claim/"+w.claim.Name)}
}

// restarts reports whether an init container goes on beside the other containers.
func restarts(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// causesOfEnding finds what keeps a pod that is being deleted. Until the node has released its devices, the status of
// the pod says that its containers run.
func (c *Causes) causesOfEnding() (found []finding.Finding) {
	pod := &c.q.Pod
	if !model.Ended(pod) {
		found = append(c.nodeAway(), c.driverAway()...)
		found = append(found, c.q.unprepareFailures()...)
		found = append(found, c.q.lastEventAs("FailedKillPod", killFailed,
			"the kubelet cannot end its containers", "look at the container runtime of node "+pod.Spec.NodeName)...)
	}
	if len(pod.Finalizers) > 0 && (model.Ended(pod) || pod.Spec.NodeName == "") {
		found = append(found, problem(finalizers,
			"it waits for its finalizers: "+text.Foreign(strings.Join(pod.Finalizers, ", ")),
			"whoever set a finalizer removes it"))
	}
	if d := disruption(pod); d != nil {
		found = append(found, problem(evicted, "it is evicted: "+text.Foreign(d.Reason+": "+d.Message), ""))
	}
	return found
}

func (q *Question) unprepareFailures() []finding.Finding {
	return q.lastEventAs("RDMAUnprepareFailed", unprepareFailed, "the driver cannot release its devices",
		"the kubelet tries again; the driver's log on that node says more")
}
