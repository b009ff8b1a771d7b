package why

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

var (
	allocatorError   = Kinds.Kind("AllocatorError", claimsRead, classesRead, slicesRead)
	lacksShares      = Kinds.Kind("LacksShares", claimsRead, slicesRead)
	selectorError    = Kinds.Kind("SelectorError", claimsRead, classesRead, slicesRead)
	classEmpty       = Kinds.Kind("ClassEmpty", classesRead, slicesRead)
	noDevices        = Kinds.Kind("NoDevices", slicesRead)
	poolIncomplete   = Kinds.Kind("PoolIncomplete", slicesRead)
	poolInvalid      = Kinds.Kind("PoolInvalid", slicesRead)
	neverFits        = Kinds.Kind("NeverFits", classesRead, slicesRead, nodesRead)
	notScheduled     = Kinds.Kind("NotScheduled", claimsRead)
	together         = Kinds.Kind("Together", allClaimsRead, classesRead, slicesRead, rulesRead, nodesRead)
	notEnoughDevices = Kinds.Kind("NotEnoughDevices", allClaimsRead, classesRead, slicesRead, rulesRead, nodesRead)
)

// explainPending explains the claims without devices.
func (w *inquiry) explainPending(ctx context.Context) error {
	var claims []*resourceapi.ResourceClaim
	w.findNodes()
	for _, want := range w.wanted {
		answer := ClaimAnswer{
			Name: want.claim.Name, In: want.in, State: model.StateOf(want.claim),
			Devices: model.AllocatedTo(want.claim), Uses: usesOf(want.claim),
		}
		if want.extended() {
			answer.Name = ""
		}
		if want.claim.Status.Allocation == nil {
			claims = append(claims, want.claim)
			if err := w.judgeClaim(ctx, want.claim, &answer); err != nil {
				return err
			}
		}
		w.a.Claims = append(w.a.Claims, answer)
	}
	if len(claims) == 0 || w.a.Verdict != "" {
		return nil
	}
	if w.view.Cluster.Unread.Has(model.Slices) {
		w.unknown = append(w.unknown,
			unread("the ResourceSlices, which say what there is, could not be read", model.Slices))
		w.find(w.unknown[len(w.unknown)-1])
	}
	if len(w.unknown) > 0 {
		w.conclude(VerdictUnknown, "its claims have no devices, and nobody can tell whether they fit: %s",
			w.unknown[0].Message)
		return nil
	}
	if err := w.givesUp(ctx, claims); err != nil {
		w.conclude(VerdictBroken, "an expression cannot be evaluated, and the scheduler gives up on the pod")
		return nil
	}
	w.find(uselessPools(w.view)...)
	w.tryChanges(ctx, claims)
	return nil
}

// allocatorFails adds an error of the allocator, at which the scheduler gives up on the pod too.
func (w *inquiry) allocatorFails(err error) {
	w.find(problem(allocatorError,
		err.Error(),
		"correct what the error names: the scheduler gives up on the pod at such an error, too"))
	w.conclude(VerdictBroken, "the scheduler's allocator fails: %v", err)
}

// judgeClaim judges the devices of each request. An expression with an error stops the scheduling of
// the pod, whatever else there is.
func (w *inquiry) judgeClaim(ctx context.Context, claim *resourceapi.ResourceClaim, answer *ClaimAnswer) error {
	for _, r := range model.RequestsOf(claim) {
		report, err := w.view.Judge(ctx, r, w.reasons)
		_, inExpression := errors.AsType[model.ExpressionError](err)
		switch {
		case model.TimeIsOver(err):
			return err
		case err != nil && !inExpression:
			report.Error = "its devices are not known, since the allocator fails"
			w.allocatorFails(err)
		case err != nil:
			report.Error = "its devices are not known, since an expression cannot be evaluated"
			w.find(problem(selectorError,
				err.Error(),
				"the scheduler gives up on a pod at such an error: correct the expression. "+
					"An attribute that some devices lack is read with .?name.orValue(...)", "claim/"+claim.Name, "request/"+r.Name))
		case w.view.Classes[r.Class] != nil && report.Devices == 0 && report.Error == "":
			w.find(w.classWithout(claim, r))
		}
		if report.LacksShares > 0 && !has(w.a.Findings, lacksShares) {
			w.find(note(lacksShares, w.view.Cluster.WithoutShares(),
				"enable the feature gate in kube-apiserver, kube-scheduler, kube-controller-manager and kubelet, and "+
					"restart the drivers", "request/"+r.Name))
		}
		answer.Requests = append(answer.Requests, report)
	}
	return nil
}

// givesUp returns the error at which the scheduler would give up on the pod. The scheduler stops
// when it has enough devices. So an expression that fails on some device may do no
// harm.
func (w *inquiry) givesUp(ctx context.Context, claims []*resourceapi.ResourceClaim) error {
	if !has(w.a.Findings, selectorError) {
		return nil
	}
	for _, node := range w.open {
		if _, err := w.view.Fits(ctx, []*corev1.Node{node}, claims, nil); err != nil {
			return err
		}
	}
	return nil
}

// classWithout explains a class without devices.
func (w *inquiry) classWithout(claim *resourceapi.ResourceClaim, r model.Request) finding.Finding {
	const none = "no driver publishes a device in this cluster"
	subjects := []string{"claim/" + claim.Name, "request/" + r.Name}
	devices, drivers := len(w.view.Devices), len(w.view.Drivers)
	empty := fmt.Sprintf("DeviceClass %s selects none of the %s of the cluster", r.Class, text.Count(devices, "device"))
	switch {
	case !model.IsOurs(w.view.Classes[r.Class]):
		return problem(classEmpty, empty,
			"name another class, or see why the driver of its devices publishes none: kubectl get resourceslices", subjects...)
	case devices > 0:
		return problem(classEmpty, empty,
			"name another class; kubectl rdma devices -o wide shows what there is", subjects...)
	case drivers > 0:
		return problem(noDevices, none+", although ours runs on "+text.Count(drivers, "node"),
			"see why: kubectl rdma nodes, the log of a driver, and kubectl get events -n default --field-selector source="+
				rdma.Domain, subjects...)
	case w.view.Cluster.Unread.Has(model.Pods):
		return problem(noDevices, none,
			"ask an administrator whether the driver runs (kubectl rdma nodes): you may not list its pods", subjects...)
	}
	return problem(noDevices, none,
		"install the driver, or see why its pods do not run: kubectl get daemonsets -A -l "+model.DriverSelector, subjects...)
}

// uselessPools are the pools from which the scheduler allocates nothing now.
func uselessPools(v *model.View) (found []finding.Finding) {
	for _, pool := range v.Partial {
		found = append(found, problem(poolIncomplete, "the driver is publishing pool "+pool,
			"wait some seconds; if it stays so, look at the log of that driver on that node"))
	}
	for _, pool := range v.Invalid {
		found = append(found, problem(poolInvalid,
			"pool "+pool+" is invalid, and the scheduler takes nothing from it: "+
				"two devices have the same name, or a device consumes a counter that the pool lacks",
			"that is a fault of that driver: report it, with kubectl get resourceslices -o yaml"))
	}
	return found
}

// findNodes finds the nodes where the pod can go by its own rules, taints and allocated
// claims. It ignores CPU and memory, which only the scheduler can judge.
func (w *inquiry) findNodes() {
	w.reasons = map[string]string{}
	for i := range w.view.Cluster.Nodes {
		node := &w.view.Cluster.Nodes[i]
		if why := w.whyNotOn(node); why != "" {
			w.reasons[node.Name] = why
			w.closed = append(w.closed, node)
		} else {
			w.open = append(w.open, node)
		}
	}
}

func (w *inquiry) whyNotOn(node *corev1.Node) string {
	pod := &w.q.Pod
	if name := pod.Spec.NodeName; name != "" && name != node.Name {
		return "the pod is on node " + name
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); !w.view.Guessed && (err != nil || !ok) {
		return "the pod's node selector or affinity excludes the node"
	}
	for _, want := range w.wanted {
		if a := want.claim.Status.Allocation; a != nil && a.NodeSelector != nil {
			s, err := nodeaffinity.NewNodeSelector(a.NodeSelector)
			if err != nil || !s.Match(node) {
				return "the devices of claim " + want.claim.Name + " are on another node"
			}
		}
		if model.Skips(want.claim) && !model.OptionalOperations(node) {
			return model.LacksOptional
		}
		for _, name := range want.resources {
			if offered([]corev1.Node{*node}, name) {
				return fmt.Sprintf("a device plugin of the node offers %s, and the scheduler takes it from there", name)
			}
		}
	}
	if node.Spec.Unschedulable && untoleratedOf(pod, corev1.Taint{
		Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule,
	}) != nil {
		return "the node is cordoned"
	}
	if taint := untoleratedOf(pod, node.Spec.Taints...); taint != nil {
		return "the node's taint " + taint.ToString() + " is not tolerated by the pod"
	}
	return ""
}

// untoleratedOf returns the first taint that keeps a pod away from a node. An API server without the operators Lt and
// Gt accepts no pod with them.
func untoleratedOf(pod *corev1.Pod, taints ...corev1.Taint) *corev1.Taint {
	taint, found := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		}, true)
	if !found {
		return nil
	}
	return &taint
}

// tryChanges tries changes with the allocator, and sets the verdict.
func (w *inquiry) tryChanges(ctx context.Context, claims []*resourceapi.ResourceClaim) {
	t := &whatIf{view: w.view, nodes: w.open, closed: w.closed, claims: claims}
	for _, c := range w.a.Claims {
		for _, r := range c.Requests {
			t.rulings = append(t.rulings, r.RuledOut...)
		}
	}
	err := t.run(ctx)
	if model.TimeIsOver(err) {
		w.a.Unread = append(w.a.Unread, "the time was over before all changes were tried")
	} else if err != nil {
		w.allocatorFails(err)
		return
	}
	w.a.Remedies, w.a.answers = t.remedies, t.answers
	tolerable := slices.ContainsFunc(t.remedies, func(r Remedy) bool { return r.Change == ChangeToleration })
	if t.never && !tolerable && len(w.open) > 0 && len(w.view.Devices) > 0 && len(w.view.Partial) == 0 {
		w.find(problem(neverFits,
			"it would not fit either if every other claim ended: "+
				"no node that the pod can use has the devices that its claims request",
			"change the claims or the pod, or add a node that has them"))
	}
	if len(t.remedies) > 0 && t.remedies[0].Change == ChangeNothing {
		w.a.Remedies = nil
		w.schedulable(t.remedies[0].Node)
		w.notLookedAt()
		return
	}
	w.concludeShort()
}

// notLookedAt says what the scheduler also looks at for the devices of the claims, and this program does not.
func (w *inquiry) notLookedAt() {
	for _, d := range w.view.Devices {
		if len(d.NodeAllocatableResources) > 0 {
			w.a.Unread = append(w.a.Unread,
				"devices of driver "+d.Slice.Spec.Driver+" take CPU, memory or the like from their node: whether it has enough")
			break
		}
	}
	for _, want := range w.wanted {
		for _, name := range want.resources {
			if offered(w.view.Cluster.Nodes, name) {
				w.a.Unread = append(w.a.Unread, fmt.Sprintf("whether the device plugins of nodes have %s left", name))
			}
		}
	}
}

// schedulable sets the verdict on claims that fit: the pod waits for something else.
func (w *inquiry) schedulable(node string) {
	switch {
	case w.q.Pod.Spec.NodeName != "":
		name := w.q.Pod.Spec.NodeName
		w.find(problem(notScheduled,
			"the pod was put on node "+name+" without the scheduler (spec.nodeName), "+
				"so nobody allocates its claims",
			"remove spec.nodeName, and select the node with nodeSelector or affinity", "node/"+name))
		w.conclude(VerdictBroken, "it has a node and no devices, since the scheduler was left out")
	case w.q.Planned != nil:
		w.conclude(VerdictSchedulable, "its claims fit, now on node %s%s", node, w.a.unseen)
	default:
		w.conclude(VerdictSchedulable, "its claims fit on node %s%s: %s", node, w.a.unseen, w.waitsFor())
	}
}

// waitsFor says for what a pod waits that could have its devices. It names only what there is to read.
func (w *inquiry) waitsFor() string {
	switch name := w.q.Pod.Spec.SchedulerName; {
	case w.a.Scheduler != "":
		return "it waits for the scheduler, or for something that is no device (see what the scheduler says)"
	case name != "" && name != corev1.DefaultSchedulerName:
		return fmt.Sprintf("it waits for scheduler %s, which has said nothing of it: see whether that runs", name)
	}
	return "it waits for the scheduler, which has said nothing of it yet"
}

// concludeShort sets the verdict on the requests that fail by themselves, or on the claims as a whole.
func (w *inquiry) concludeShort() {
	var short []string
	for i, c := range w.a.Claims {
		alternatives := map[string]bool{} // of firstAvailable lists: whether one has enough
		for _, r := range c.Requests {
			base := resourceclaim.BaseRequestRef(r.Name)
			alternatives[base] = alternatives[base] || r.Enough()
		}
		for _, base := range slices.Sorted(maps.Keys(alternatives)) {
			if !alternatives[base] {
				short = append(short, w.shortage(i, base))
			}
		}
	}
	if len(short) > 0 {
		w.conclude(VerdictUnallocated, "%s", strings.Join(short, "; "))
		return
	}
	if w.a.answers == 0 {
		w.conclude(VerdictUnknown, "its claims have no devices, and nobody can tell whether they fit: %s",
			"the time was over before the allocator answered")
		return
	}
	w.find(problem(together,
		"each request alone has enough devices on some node, and no node has devices for all of them together",
		"look at the constraints, and at requests that want the same devices"))
	w.conclude(VerdictUnallocated, "no node has devices for all requests of its claims together")
}

// shortage describes a request and the devices of the best node.
func (w *inquiry) shortage(claim int, base string) string {
	c := &w.a.Claims[claim]
	var parts []string
	for _, r := range c.Requests {
		if resourceclaim.BaseRequestRef(r.Name) != base {
			continue
		}
		node, n := r.Best()
		message := fmt.Sprintf("request %s wants %d of %s, and ", r.Name, r.Count, r.Class)
		switch {
		case r.Devices == 0 && len(w.view.Partial) > 0:
			message = fmt.Sprintf("request %s wants %s, of which no complete pool has a device", r.Name, r.Class)
		case r.Devices == 0:
			message = fmt.Sprintf("request %s wants %s, and no device is of this class", r.Name, r.Class)
		case r.Count == 0:
			message = fmt.Sprintf("request %s wants all devices of %s that match on a node, "+
				"and no node has all of them free", r.Name, r.Class)
		case n == 0:
			message += "no node has one that it can get"
		default:
			message += fmt.Sprintf("the best node, %s, has %d", node, n)
		}
		if r.Free[node] == nil {
			node = "" // any node, or none
		}
		w.find(problem(notEnoughDevices, message, "", "claim/"+c.Name, "request/"+r.Name, "node/"+node))
		parts = append(parts, w.a.Findings[len(w.a.Findings)-1].Message)
	}
	return strings.Join(parts, "; ")
}
