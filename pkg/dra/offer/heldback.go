package offer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/event"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/policy"
)

// healthPolicy returns how conditions become taints under a policy.
func healthPolicy(o *Offer, p *policy.Config) health.Policy {
	return health.Policy{Effects: p.TaintEffects(), Informational: !o.missing.has(policy.TaintEffectNone)}
}

// heldBack has the HCAs for which effects of the policy are held back, as the last event named them.
type heldBack struct{ devices []string }

// report records an event if effects are held back, once for each set of HCAs.
func (h *heldBack) report(view *health.View, p health.Policy, to Reporter) {
	devices, card := view.HeldBack(p)
	if slices.Equal(devices, h.devices) {
		return
	}
	h.devices = devices
	if len(devices) == 0 {
		return
	}
	to.Record(event.Event{Reason: event.EffectHeldBack, Message: health.Cut(fmt.Sprintf(
		"card %s has the effects that the policy gives to sick links, because it is sick the longest. "+
			"They hold for one card of a node at a time, so these have effect None: %s",
		card, strings.Join(devices, ", ")))})
}
