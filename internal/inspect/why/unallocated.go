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

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// unallocated explains the claims without devices.
func (w *inquiry) unallocated(ctx context.Context) error {
	var claims []*resourceapi.ResourceClaim
	w.findNodes()
	for _, want := range w.wanted {
		answer := ClaimAnswer{
			Name: want.Claim.Name, In: want.In, State: model.StateOf(want.Claim),
			Devices: model.AllocatedTo(want.Claim), Uses: usesOf(want.Claim),
		}
		if want.Extended() {
			answer.Name = ""
		}
		if want.Claim.Status.Allocation == nil {
			claims = append(claims, want.Claim)
			if err := w.judgeClaim(ctx, want.Claim, &answer); err != nil {
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
			unreadFinding("the ResourceSlices, which say what there is, could not be read", model.Slices))
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
	w.incomplete()
	w.whatIf(ctx, claims)
	return nil
}

// allocatorFails adds an error of the allocator, at which the scheduler gives up on the pod too.
func (w *inquiry) allocatorFails(err error) {
	w.find(Finding{
		Reason: "AllocatorError", Message: err.Error(),
		Remedy: "correct what the error names: the scheduler gives up on the pod at such an error, too",
	})
	w.conclude(VerdictBroken, "the scheduler's allocator fails: %v", err)
}

// judgeClaim judges the devices of each request. An expression with an error stops the scheduling of
// the pod, whatever else there is.
func (w *inquiry) judgeClaim(ctx context.Context, claim *resourceapi.ResourceClaim, answer *ClaimAnswer) error {
	for _, r := range model.RequestsOf(claim) {
		report, err := w.view.Judge(ctx, r, w.shut)
		_, inExpression := errors.AsType[model.ExpressionError](err)
		switch {
		case model.TimeIsOver(err):
			return err
		case err != nil && !inExpression:
			report.Error = "its devices are not known, since the allocator fails"
			w.allocatorFails(err)
		case err != nil:
			report.Error = "its devices are not known, since an expression cannot be evaluated"
			w.find(Finding{
				Reason: "SelectorError", Claim: claim.Name, Request: r.Name, Message: err.Error(),
				Remedy: "the scheduler gives up on a pod at such an error: correct the expression. " +
					"An attribute that some devices lack is read with .?name.orValue(...)",
			})
		case w.view.Classes[r.Class] != nil && report.Devices == 0 && report.Error == "":
			w.noDevices(claim, r)
		}
		answer.Requests = append(answer.Requests, report)
	}
	return nil
}

// givesUp returns the error at which the scheduler would give up on the pod. The scheduler stops
// when it has enough devices. So an expression that fails on some device may do no
// harm.
func (w *inquiry) givesUp(ctx context.Context, claims []*resourceapi.ResourceClaim) error {
	if !w.a.reported("SelectorError") {
		return nil
	}
	for _, node := range w.open {
		if _, err := w.view.Fits(ctx, []*corev1.Node{node}, claims, nil); err != nil {
			return err
		}
	}
	return nil
}

// noDevices explains a class without devices.
func (w *inquiry) noDevices(claim *resourceapi.ResourceClaim, r model.Request) {
	f := Finding{
		Reason: "ClassEmpty", Claim: claim.Name, Request: r.Name,
		Message: fmt.Sprintf("DeviceClass %s selects none of the %s of the cluster",
			r.Class, text.Count(len(w.view.Devices), "device")),
		Remedy: "name another class; kubectl rdma devices -o wide shows what there is",
	}
	switch ours := model.IsOurs(w.view.Classes[r.Class]); {
	case !ours:
		f.Remedy = "name another class, or see why the driver of its devices publishes none: kubectl get resourceslices"
	case len(w.view.Devices) > 0:
	case len(w.view.Drivers) > 0:
		f.Reason, f.Message = "NoDevices", "no driver publishes a device in this cluster, although ours runs on "+
			text.Count(len(w.view.Drivers), "node")
		f.Remedy = "see why: kubectl rdma nodes, the log of a driver, and kubectl get events -n default " +
			"--field-selector source=" + rdma.Domain
	case w.view.Cluster.Unread.Has(model.Pods):
		f.Reason, f.Message = "NoDevices", "no driver publishes a device in this cluster"
		f.Remedy = "ask an administrator whether the driver runs (kubectl rdma nodes): you may not list its pods"
	default:
		f.Reason, f.Message = "NoDevices", "no driver publishes a device in this cluster"
		f.Remedy = "install the driver, or see why its pods do not run: kubectl get daemonsets -A -l " + model.DriverSelector
		if n := len(w.view.Drivers); n > 0 {
			f.Remedy = "the driver has a pod on " + text.Count(n, "node") +
				": kubectl rdma nodes -o wide says why each publishes nothing"
		}
	}
	w.find(f)
}

// incomplete adds the pools from which the scheduler allocates nothing now.
func (w *inquiry) incomplete() {
	for _, pool := range w.view.Partial {
		w.find(Finding{
			Reason: "PoolIncomplete", Message: "the driver is publishing pool " + pool,
			Remedy: "wait some seconds; if it stays so, look at the log of that driver on that node",
		})
	}
	for _, pool := range w.view.Invalid {
		w.find(Finding{
			Reason: "PoolInvalid",
			Message: "pool " + pool + " is invalid, and the scheduler takes nothing from it: " +
				"two devices have the same name, or a device consumes a counter that the pool lacks",
			Remedy: "that is a fault of that driver: report it, with kubectl get resourceslices -o yaml",
		})
	}
}

// findNodes finds the nodes where the pod can go by its own rules, taints and allocated
// claims. It ignores CPU and memory, which only the scheduler can judge.
func (w *inquiry) findNodes() {
	w.shut = map[string]string{}
	for i := range w.view.Cluster.Nodes {
		node := &w.view.Cluster.Nodes[i]
		if why := w.whyNotOn(node); why != "" {
			w.shut[node.Name] = why
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
		if a := want.Claim.Status.Allocation; a != nil && a.NodeSelector != nil {
			s, err := nodeaffinity.NewNodeSelector(a.NodeSelector)
			if err != nil || !s.Match(node) {
				return "the devices of claim " + want.Claim.Name + " are on another node"
			}
		}
		if model.Skips(want.Claim) && !model.OptionalOperations(node) {
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

// whatIf tries changes with the allocator, and sets the verdict.
func (w *inquiry) whatIf(ctx context.Context, claims []*resourceapi.ResourceClaim) {
	t := &whatIf{view: w.view, nodes: w.open, shut: w.closed, claims: claims}
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
	w.a.Remedies = t.remedies
	tolerable := slices.ContainsFunc(t.remedies, func(r Remedy) bool { return r.Change == ChangeToleration })
	if t.never && !tolerable && len(w.open) > 0 && len(w.view.Devices) > 0 && len(w.view.Partial) == 0 {
		w.find(Finding{
			Reason: "NeverFits",
			Message: "it would not fit either if every other claim ended: " +
				"no node that the pod can use has the devices that its claims request",
			Remedy: "change the claims or the pod, or add a node that has them",
		})
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
		w.find(Finding{
			Reason: "NotScheduled", Node: name,
			Message: "the pod was put on node " + name + " without the scheduler (spec.nodeName), " +
				"so nobody allocates its claims",
			Remedy: "remove spec.nodeName, and select the node with nodeSelector or affinity",
		})
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
				short = append(short, w.short(i, base))
			}
		}
	}
	if len(short) > 0 {
		w.conclude(VerdictUnallocated, "%s", strings.Join(short, "; "))
		return
	}
	w.find(Finding{
		Reason:  "Together",
		Message: "each request alone has enough devices on some node, and no node has devices for all of them together",
		Remedy:  "look at the constraints, and at requests that want the same devices",
	})
	w.conclude(VerdictUnallocated, "no node has devices for all requests of its claims together")
}

// short describes a request and the devices of the best node.
func (w *inquiry) short(claim int, base string) string {
	c := &w.a.Claims[claim]
	var parts []string
	for _, r := range c.Requests {
		if resourceclaim.BaseRequestRef(r.Name) != base {
			continue
		}
		node, n := r.Best()
		f := Finding{Reason: "NotEnoughDevices", Claim: c.Name, Request: r.Name, Node: node}
		switch {
		case r.Devices == 0 && len(w.view.Partial) > 0:
			f.Message = fmt.Sprintf("request %s wants %s, of which no complete pool has a device", r.Name, r.Class)
		case r.Devices == 0:
			f.Message = fmt.Sprintf("request %s wants %s, of which there are no devices", r.Name, r.Class)
		case r.Count == 0:
			f.Message = fmt.Sprintf("request %s wants all devices of %s that match on a node, "+
				"and no node has all of them free", r.Name, r.Class)
		case n == 0:
			f.Message = fmt.Sprintf("request %s wants %d of %s, and no node has one that it can get",
				r.Name, r.Count, r.Class)
		default:
			f.Message = fmt.Sprintf("request %s wants %d of %s, and the best node, %s, has %d%s",
				r.Name, r.Count, r.Class, node, n, w.a.unseen)
		}
		w.find(f)
		parts = append(parts, f.Message)
	}
	return strings.Join(parts, "; ")
}
