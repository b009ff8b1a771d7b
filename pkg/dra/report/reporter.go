package report

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rdma-dev/dra-driver-rdma/internal/hook"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/node"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/plan"
)

// Reporter takes the reports of the other parts of the driver.
type Reporter struct {
	*Recorder
	*ClaimStatus // nil for none
	Node         *node.Node
	// LimitsIgnored means that the site lets the hook ignore limits that it may not set. Such limits cause no event.
	LimitsIgnored bool
}

// ContainerReported records the events that the hook's report about a container causes for its claim. The container has
// its network by then.
func (r Reporter) ContainerReported(hooked hook.Report, p *plan.Plan) {
	r.ContainerStarted(p.UID)
	for _, e := range r.eventsOf(hooked, p) {
		e.Pod, e.Start = types.UID(hooked.PodUID), true
		r.Record(e)
	}
}

// eventsOf returns the events of a claim that the report of one of its containers causes.
func (r Reporter) eventsOf(hooked hook.Report, p *plan.Plan) (out []event.Event) {
	container := "container " + hooked.ID
	if hooked.Container != "" {
		container = "container " + hooked.Container
	}
	if !r.LimitsIgnored {
		out = limitEvents(hooked, p, container)
	}
	if hooked.HostNetwork == nil || *hooked.HostNetwork {
		return out
	}
	host := r.Node.Host()
	if names := (Addresses{Sys: host.Sys}).WithoutNetdev(p, host.Snapshot); len(names) > 0 {
		out = append(out, event.OfClaim(p, event.NetdevMissing, fmt.Sprintf(
			"%s has RoCE devices of claim %s, but none of their network interfaces: %s stayed on the host. "+
				"RoCE needs an interface with an address in the pod: give it a VF's by a CNI plugin, or use hostNetwork",
			container, p.Name, strings.Join(names, ", "))))
	}
	return out
}

func limitEvents(hooked hook.Report, p *plan.Plan, container string) (out []event.Event) {
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
