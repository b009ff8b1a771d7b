package offer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/publisher"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// repeatInterval is the interval of repeating the event of a node without devices: such a node has no ResourceSlice,
// and API servers keep events for an hour (docs/adr/0060).
const repeatInterval = 45 * time.Minute

// notices has the last message of each reason, so that an event is recorded once for each message.
type notices map[string]string

// record records an event of the node, and reports whether it is new. An event without a message says that there is
// nothing to report now.
func (n notices) record(e event.Event, to Reporter) (isNew bool) {
	if e.Message == n[e.Reason.Reason] {
		return false
	}
	n[e.Reason.Reason] = e.Message
	if e.Message != "" {
		to.Record(e)
	}
	return e.Message != ""
}

// whyNoDevices returns the event that says why the node publishes nothing, without a message if it publishes devices.
func whyNoDevices(decided *Decision, snap *rdma.Snapshot, withheld error, refused *Refusal) event.Event {
	e := event.Event{Reason: event.NoDevices}
	switch {
	case len(decided.Devices) > 0:
		return e
	case withheld != nil:
		e.Message = withheld.Error()
	case refused != nil && refused.First:
		e.Message = refused.Message()
	case len(snap.HCAs) > 0:
		e.Message = notPublished(decided)
	case len(snap.Problems) > 0:
		var all []error
		for _, p := range snap.Problems {
			all = append(all, p)
		}
		e.Message = fmt.Sprintf("no HCA of the host could be read: %v", errors.Join(all...))
	default:
		e.Reason.Type = corev1.EventTypeNormal
		e.Message = "the kernel lists no RDMA device in /sys/class/infiniband; " +
			"if the host has an HCA, load its kernel modules"
	}
	e.Message = health.Cut(e.Message)
	return e
}

// notPublished lists the HCAs of a decision that publishes none, by reason.
func notPublished(decided *Decision) string {
	var reasons []string
	hcas := map[string][]string{}
	for _, one := range decided.Decisions {
		if hcas[one.Reason] == nil {
			reasons = append(reasons, one.Reason)
		}
		hcas[one.Reason] = append(hcas[one.Reason], one.HCA.IBDev)
	}
	var out []string
	for _, reason := range reasons {
		out = append(out, text.Some(hcas[reason], ", ")+": "+reason)
	}
	return "no HCA of the host is published; " + strings.Join(out, "; ")
}

// heldBack returns the event that names the HCAs for which effects of the policy are held back, without a message if
// there are none.
func heldBack(view *health.View, p health.Policy) event.Event {
	e := event.Event{Reason: event.EffectHeldBack}
	if devices, card := view.HeldBack(p); len(devices) > 0 {
		e.Message = health.Cut(fmt.Sprintf("card %s has the effects that the policy gives to sick links, because it is sick "+
			"the longest. They hold for one card of a node at a time, so these have effect None: %s",
			card, strings.Join(devices, ", ")))
	}
	return e
}

// reportLoss reports that the API server lacks slices, or has them again.
func reportLoss(ctx context.Context, to Reporter, l publisher.Loss) {
	since := time.Since(l.Since).Round(100 * time.Millisecond)
	e := event.Event{Reason: event.NotPublished, Message: fmt.Sprintf(
		"for %v the API server has not had the node's RDMA devices as they are: %v", since, l.Cause)}
	if l.Over {
		e = event.Event{Reason: event.PublishedAgain, Message: fmt.Sprintf(
			"the node's RDMA devices are published again, after %v: %v", since, l.Cause)}
	}
	klog.FromContext(ctx).Info("Publication on the API server", "state", e.Message)
	to.Record(e)
}
