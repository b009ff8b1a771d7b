package lists

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/internal/inspect/model"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// healthyCondition is the driver's condition of an allocated device: whether its HCAs are as good as they should be. It
// is absent until one is sick.
const healthyCondition = "Healthy"

// maxPast bounds the events of a DeviceHistory.
const maxPast = 16

// DeviceHistory is what is wrong with one device, and what happened to it, as slices, claims and events say.
type DeviceHistory struct {
	Device
	// Since are the times of taints, by their keys. A taint without a time is absent.
	Since map[string]time.Time `json:"since,omitempty"`
	// Health is what the claims of the device say.
	Health []ClaimHealth `json:"health,omitempty"`
	// Events are those of the node that name the device, the newest first, at most 16.
	Events []PastEvent `json:"events"`

	now time.Time
	// rulesUnread and eventsUnread say that taints of rules, or events, are not known.
	rulesUnread, eventsUnread bool
}

// ClaimHealth is the driver's condition Healthy of the device in one claim.
type ClaimHealth struct {
	Claim   string                 `json:"claim"`
	Healthy metav1.ConditionStatus `json:"healthy"`
	Since   time.Time              `json:"since"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message,omitempty"`
}

// PastEvent is an event of the node about the device.
type PastEvent struct {
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Count   int       `json:"count"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// History returns the history of a device of a node, by the name of the device or the kernel's name of its HCA. The
// cluster must have the events of the node.
func History(ctx context.Context, c *model.Cluster, node, name string) (*DeviceHistory, error) {
	v := c.View()
	var names []string
	for _, d := range v.Devices {
		if d.Slice.Spec.Driver != rdma.Domain || d.Node() != node {
			continue
		}
		if d.Name != name && d.Text(rdma.AttributeIBDev) != name {
			names = append(names, d.Name)
			continue
		}
		listed, err := newDevice(ctx, v, d)
		if err != nil {
			return nil, err
		}
		out := &DeviceHistory{
			Device: listed, Since: map[string]time.Time{}, Events: []PastEvent{}, now: c.Now,
			rulesUnread: c.Unread.Has(model.Rules), eventsUnread: c.Unread.Has(model.NodeEvents),
		}
		for _, t := range d.AllTaints() {
			if t.TimeAdded != nil {
				out.Since[t.Key] = t.TimeAdded.Time
			}
		}
		for _, h := range v.Holdings[d.ID] {
			out.Health = append(out.Health, healthIn(h.Claim, d)...)
		}
		out.Events = eventsAbout(c.Events, node, model.HCAOf(d.Name))
		return out, nil
	}
	if names == nil {
		return nil, fmt.Errorf("find device %q: node %q publishes no RDMA device: see kubectl rdma nodes", name, node)
	}
	return nil, fmt.Errorf("find device %q: node %q has no such device; name one of: %s", name, node,
		text.First(names, 16, ", "))
}

// healthIn returns what the status of a claim says of the health of a device.
func healthIn(claim *resourceapi.ResourceClaim, d *model.Device) (out []ClaimHealth) {
	for _, s := range claim.Status.Devices {
		if s.Driver != rdma.Domain || s.Pool != d.Slice.Spec.Pool.Name || s.Device != d.Name {
			continue
		}
		for _, c := range s.Conditions {
			if c.Type == healthyCondition {
				out = append(out, ClaimHealth{model.ClaimName(claim), c.Status, c.LastTransitionTime.Time, c.Reason, c.Message})
			}
		}
	}
	return out
}

// eventsAbout returns the driver's events of a node that name an HCA, the newest first. One event may name several.
func eventsAbout(events []corev1.Event, node, hca string) []PastEvent {
	out := []PastEvent{}
	sorted := slices.Clone(events)
	model.SortEvents(sorted)
	for _, e := range slices.Backward(sorted) {
		of := e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == node
		if model.Reporter(&e) != rdma.Domain || !of || !strings.Contains(" "+e.Message, " "+hca+" (") {
			continue
		}
		one := PastEvent{e.FirstTimestamp.Time, model.LastTime(&e), int(max(1, e.Count)), e.Type, e.Reason, e.Message}
		if one.First.IsZero() {
			one.First = one.Last
		}
		if out = append(out, one); len(out) == maxPast {
			break
		}
	}
	return out
}

// WriteText writes the history for people. Texts of others are bounded and escaped.
func (h *DeviceHistory) WriteText(w io.Writer) error {
	b := new(strings.Builder)
	facts := []string{h.text(rdma.AttributeProtocol), h.text(rdma.AttributeFunction), h.rate(), string(h.State)}
	facts = slices.DeleteFunc(facts, func(s string) bool { return s == "" })
	text.Fprintf(b, "%s/%s (%s): %s\n", h.Node, h.Name, h.text(rdma.AttributeIBDev), strings.Join(facts, ", "))
	switch {
	case h.rulesUnread:
		fmt.Fprintln(b, "Taints of DeviceTaintRules could not be read.")
	case len(h.Taints) == 0:
		fmt.Fprintln(b, "No taint.")
	}
	for _, t := range h.Taints {
		key, _, _ := strings.Cut(t, ":")
		text.Fprintf(b, "Taint %s%s\n", t, h.since(h.Since[key]))
	}
	for _, c := range h.Health {
		text.Fprintf(b, "Claim %s: Healthy is %s (%s)%s", c.Claim, string(c.Healthy), c.Reason, h.since(c.Since))
		if c.Message != "" {
			text.Fprintf(b, ": %s", text.Bound(c.Message, text.MaxForeign))
		}
		fmt.Fprintln(b)
	}
	switch {
	case h.eventsUnread:
		fmt.Fprintln(b, "Events of the node could not be read.")
	case len(h.Events) == 0:
		fmt.Fprintln(b, "No event: the API server keeps events for an hour, unless it is configured otherwise.")
	}
	var rows [][]string
	for _, e := range h.Events {
		rows = append(rows, []string{
			text.Time(e.Last), fmt.Sprint(e.Count), e.Type, e.Reason, text.Bound(e.Message, text.MaxForeign),
		})
	}
	_ = text.Table(b, "\nLAST\tCOUNT\tTYPE\tEVENT\tMESSAGE", rows)
	_, err := io.WriteString(w, b.String())
	return err
}

// since returns the time of something, "" for none.
func (h *DeviceHistory) since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(" since %s (%s)", text.Time(at), duration.HumanDuration(h.now.Sub(at)))
}
