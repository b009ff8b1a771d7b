package offer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// repeatInterval is the interval of repeating the event of a node without devices: such a node has no ResourceSlice,
// and API servers keep events for an hour (docs/adr/0060).
const repeatInterval = 45 * time.Minute

// noDevices has the last event that said why the node publishes nothing. The zero value repeats it.
type noDevices struct{ last event.Event }

// report records an event that says why the node publishes nothing, once for each reason.
func (n *noDevices) report(now event.Event, to Reporter) {
	if now == n.last {
		return
	}
	if n.last = now; now.Message != "" {
		to.Record(now)
	}
}

// whyNoDevices returns the event that says why the node publishes nothing, the zero event if it publishes devices.
func whyNoDevices(decided *Decision, snap *rdma.Snapshot, withheld error, refused *Refusal) event.Event {
	e := event.Event{Reason: event.NoDevices}
	switch {
	case len(decided.Devices) > 0:
		return event.Event{}
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
