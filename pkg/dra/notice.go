package dra

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/statuspage"
)

// Notices wait for their turn, and beyond that many they are lost. They cost the API
// server a GET and some events each.
const (
	noticesAtMost   = 256
	noticePerSecond = 5
	noticeBurst     = 50
)

// notice is something that the owner of a claim should hear of, as an event.
type notice struct {
	Namespace, Claim string
	UID              types.UID
	Event            EventReason
	Note             string
	Pods             bool      // who uses the claim hears of it too
	Pod              types.UID // of these only the one, if it is known which
}

// notices, unless it is nil, are on their way to the API server. Nothing waits for them,
// and one that is lost is lost: what they say is in the log as well.
type notices struct {
	waiting chan notice
	limiter flowcontrol.RateLimiter
}

func newNotices(wanted bool) *notices {
	if !wanted {
		return nil
	}
	return &notices{make(chan notice, noticesAtMost), flowcontrol.NewTokenBucketRateLimiter(noticePerSecond, noticeBurst)}
}

// add never waits.
func (n *notices) add(one notice) {
	if n == nil {
		return
	}
	select {
	case n.waiting <- one:
	default: // a storm: those that wait say enough
	}
}

// noticeLoop tells the owners of claims until ctx ends.
func (d *Driver) noticeLoop(ctx context.Context) {
	if d.notices == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-d.notices.waiting:
			if err := d.deliver(ctx, one); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Events of a claim are lost", "claim", klog.KRef(one.Namespace, one.Claim), "reason", one.Event.Reason, "cause", err.Error())
			}
		}
	}
}

// deliver leaves the events of a notice: on the claim, and on the pods that use it.
func (d *Driver) deliver(ctx context.Context, n notice) error {
	if err := d.notices.limiter.Wait(ctx); err != nil {
		return err
	}
	d.recorder.events.Event(&corev1.ObjectReference{
		APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim", Namespace: n.Namespace, Name: n.Claim, UID: n.UID,
	}, n.Event.Type, n.Event.Reason, health.Cut(n.Note))
	if !n.Pods {
		return nil
	}
	claim, err := d.client.ResourceV1().ResourceClaims(n.Namespace).Get(ctx, n.Claim, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && claim.UID != n.UID {
		return nil // it has ended
	}
	if err != nil {
		return fmt.Errorf("get claim %s/%s for its pods: %w", n.Namespace, n.Claim, err)
	}
	for _, user := range claim.Status.ReservedFor {
		if user.APIGroup != "" || user.Resource != "pods" || n.Pod != "" && n.Pod != user.UID {
			continue
		}
		d.recorder.events.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: n.Namespace, Name: user.Name, UID: user.UID},
			n.Event.Type, n.Event.Reason, health.Cut(n.Note))
	}
	return nil
}

// tell makes a notice known: on the status page at once, and to the owner of the claim.
func (d *Driver) tell(n notice) {
	d.happened.Add(d.now(), statuspage.Event{
		Warning: n.Event.Type == corev1.EventTypeWarning, Reason: n.Event.Reason, Object: n.Namespace + "/" + n.Claim, Message: n.Note,
	})
	d.notices.add(n)
}

// tellHealth tells the users of an HCA what began or ended of it. The status page has it
// of the HCA itself.
func (d *Driver) tellHealth(transitions []health.Transition, plans []*plan.Plan) {
	for _, t := range transitions {
		for _, p := range plans {
			if slices.Contains(p.HCAs(), t.Device) {
				d.notices.add(aboutClaim(p, EventReason{Reason: t.Reason(), Type: eventType(t)}, t.Note()))
			}
		}
	}
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
		n.Pod = types.UID(r.PodUID)
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
