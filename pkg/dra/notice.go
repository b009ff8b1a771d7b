package dra

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/statuspage"
)

// notice is something that people should learn as an event: of the node, or of a claim.
type notice struct {
	Namespace, Claim string // empty for the node
	UID              types.UID
	Event            EventReason
	Note             string             // or else
	Transition       *health.Transition // which is told of together with others of its reason
	Pods             bool               // the pods that use the claim have the event too
	Pod              types.UID          // of these only the one, if it is known which
	Start            bool               // a container that starts is the cause
}

// about returns the object that has the event.
func (n *notice) about(node string) corev1.ObjectReference {
	if n.Claim == "" {
		// The kubelet gives the name for the UID as well, and kubectl describe looks for both.
		return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
	}
	return corev1.ObjectReference{
		APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim", Namespace: n.Namespace, Name: n.Claim, UID: n.UID,
	}
}

// tell makes a notice known: on the status page at once, and to the owner of the claim.
func (d *Driver) tell(n notice) {
	d.happened.Add(d.now(), statuspage.Event{
		Warning: n.Event.Type == corev1.EventTypeWarning, Reason: n.Event.Reason, Object: n.Namespace + "/" + n.Claim, Message: n.Note,
	})
	d.notices.add(0, n)
}

// tellHealth leaves events of what began or ended of HCAs: on the node, and on the claims that have them with their pods. The
// status page has it of the HCA itself.
func (d *Driver) tellHealth(transitions []health.Transition, plans []*plan.Plan) {
	if len(transitions) == 0 {
		return
	}
	var batch []notice
	for i := range transitions {
		t := &transitions[i]
		batch = append(batch, notice{Event: EventReason{Reason: t.Reason(), Type: eventType(*t)}, Transition: t})
	}
	for _, p := range plans {
		for _, n := range batch[:len(transitions)] {
			if slices.Contains(p.HCAs(), n.Transition.Device) {
				n.Namespace, n.Claim, n.UID, n.Pods = p.Namespace, p.Name, p.UID, true
				batch = append(batch, n)
			}
		}
	}
	// Links that fail together are judged one after the other: those in doubt most likely follow.
	d.notices.add(len(d.health.model.Pending()), batch...)
}

func aboutClaim(p *plan.Plan, event EventReason, note string) notice {
	return notice{Namespace: p.Namespace, Claim: p.Name, UID: p.UID, Event: event, Note: note, Pods: true}
}

// followUp tells what the hook's report of a container means for its claim. It is the moment at
// which the container has its network.
func (d *Driver) followUp(r hook.Report) {
	p, err := d.claims.Get(types.UID(r.Claim))
	if r.Claim == "" || err != nil || p == nil {
		return // it has ended, or is of no claim
	}
	d.statuses.later(p.UID)
	for _, n := range d.meaningOf(r, p) {
		n.Pod, n.Start = types.UID(r.PodUID), true
		d.tell(n)
	}
}

// meaningOf returns what the users of a claim should know of a container. Where the
// site has the hook ignore what it may not do, there is nothing to say of limits.
func (d *Driver) meaningOf(r hook.Report, p *plan.Plan) (out []notice) {
	container := "container " + r.ID
	if r.Container != "" {
		container = "container " + r.Container
	}
	if d.cfg.Hook.OnDenied != string(hook.Ignore) {
		if !r.Outcome.Well() {
			out = append(out, aboutClaim(p, MemlockNotRaised, fmt.Sprintf("%s has less locked memory than claim %s asks for: %s", container, p.Name, r.Message)))
		}
		for _, l := range r.Limits {
			if !l.Outcome.Well() {
				out = append(out, aboutClaim(p, LimitNotSet, fmt.Sprintf("%s is not limited on %s as claim %s says: %s", container, l.Device, p.Name, l.Message)))
			}
		}
	}
	if r.HostNetwork == nil || *r.HostNetwork {
		return out
	}
	if names := (addresses{d.host.sys}).withoutNetdev(p, d.host.snapshot()); len(names) > 0 {
		out = append(out, aboutClaim(p, NetdevMissing, fmt.Sprintf(
			"%s has RoCE devices of claim %s, but none of their network interfaces: %s stayed on the host. RoCE needs an interface with an address in the pod: give it a VF's by a CNI plugin, or use hostNetwork",
			container, p.Name, strings.Join(names, ", "))))
	}
	return out
}
