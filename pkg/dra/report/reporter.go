// Package report writes Kubernetes events of the node, of claims and of pods. It also writes the status of claims, and
// makes the status page and the data of metrics.
//
// A [Recorder] takes an [event.Event] as a value and never blocks its caller. The status page shows the event at once.
// The Kubernetes event is sent to the API server within the budget of the node (package budget). Pending events of one
// object are merged into one event for each reason. An event that cannot be sent is lost: the driver's log has its
// content.
//
// A [ClaimStatus] writes into the status of each prepared claim which HCAs it has, by the names of the kernel, with
// their ports and addresses.
//
// The package reads the host's snapshot and the plans of claims. It changes neither.
package report

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook/record"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/budget"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Config configures a Reporter.
type Config struct {
	Client   kubernetes.Interface
	Node     *node.Node
	NodeName string // also of the node's pool
	Budget   *budget.Budget
	Clock    clock.WithTicker
	// Now returns the time on the status page. Changes of the host's clock do not change differences.
	Now func() time.Time
	// ClaimStatus means that the status of claims is written. ClaimEvents means that claims and pods get events too.
	ClaimStatus, ClaimEvents bool
	// LimitsIgnored means that the site lets the hook ignore limits that it may not set. Such limits cause no event.
	LimitsIgnored bool
	// OnlyPod returns the pod of a claim that only this pod can use, without a request to the API server. It returns
	// nil if the pod is unknown.
	OnlyPod func(ctx context.Context, claim corev1.ObjectReference) *corev1.ObjectReference
	// Attached returns the interface that a pod got with a device of its claim, nil where the driver gave none.
	Attached func(*plan.Plan, plan.Device) *resourceapi.NetworkDeviceData
	// Memory keeps values for the next driver of this boot.
	Memory Memory
	// Yield waits until the kubelet's calls in progress have ended.
	Yield func(context.Context)
}

// Memory keeps values under names. See claimstore.Memory.
type Memory interface {
	Remember(name string, value any) error
	Recall(name string, value any) (bool, error)
}

// Reporter takes the reports of the other parts of the driver.
type Reporter struct {
	*Recorder
	*ClaimStatus // nil for none
	unusables    *unusables
	notices      *notices // of NetdevMissing
}

// New returns a Reporter. It sends nothing before the Run of its parts.
func New(cfg Config) Reporter {
	r := Reporter{Recorder: NewRecorder(cfg), unusables: &unusables{}, notices: &notices{}}
	if cfg.ClaimStatus {
		r.ClaimStatus = NewClaimStatus(cfg)
	}
	return r
}

// ContainerReported records the events that the hook's report about a container causes for its claim. The container has
// its network by then.
func (r Reporter) ContainerReported(hooked record.Report, p *plan.Plan) {
	r.Checked(p.UID, hooked)
	r.ContainerStarted(p.UID)
	for _, e := range r.notices.eventsOf(r.Recorder.cfg, hooked, p) {
		e.Pod, e.Start = types.UID(hooked.PodUID), true
		r.Record(r.unusables.merged(e, r.Recorder.cfg.Now()))
	}
}

// containerOf names the container of a report.
func containerOf(hooked record.Report) string {
	if hooked.Container != "" {
		return "container " + hooked.Container
	}
	return "container " + hooked.ID
}

// eventsOf returns the events of a claim that the report of one of its containers causes. A pod without the interfaces
// of its devices is noticed once.
func (n *notices) eventsOf(cfg Config, hooked record.Report, p *plan.Plan) (out []event.Event) {
	container := containerOf(hooked)
	if !cfg.LimitsIgnored {
		out = limitEvents(hooked, p, container)
	}
	out = append(out, unusableEvents(hooked, p, container)...)
	if hooked.HostNetwork == nil || *hooked.HostNetwork {
		return out
	}
	host := cfg.Node.Host()
	names := (Addresses{Sys: host.Sys}).WithoutNetdev(p, host.Snapshot)
	if len(names) > 0 && n.first(notice{p.UID, types.UID(hooked.PodUID)}) {
		out = append(out, event.OfClaim(p, event.NetdevMissing, fmt.Sprintf(
			"%s has devices of claim %s, but none of their network interfaces: %s stayed on the host. "+
				"rdma_cm and libraries that use addresses need an interface with an address in the pod: "+
				"give it a VF's by a CNI plugin, or use hostNetwork",
			container, p.Name, strings.Join(names, ", "))))
	}
	return out
}

func limitEvents(hooked record.Report, p *plan.Plan, container string) (out []event.Event) {
	if !hooked.Outcome.Well() {
		out = append(out, event.OfClaim(p, event.MemlockNotRaised,
			fmt.Sprintf("%s has less locked memory than claim %s asks for: %s", container, p.Name, hooked.Message)))
	}
	for _, l := range hooked.Limits {
		if !l.Outcome.Well() {
			out = append(out, event.OfClaim(p, event.LimitNotSet,
				fmt.Sprintf("%s is not limited on %s as claim %s says: %s", container, l.Device, p.Name, l.Message)))
		}
	}
	return out
}
