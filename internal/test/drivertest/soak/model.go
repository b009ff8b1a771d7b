package soak

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest"
	"github.com/rdma-dev/dra-driver-rdma/internal/test/drivertest/invariants"
)

// model is what a scheduler and a kubelet know of the node.
type model struct {
	claims []*allocation
	next   int // the number of the next claim
}

// allocation is a claim that the scheduler has given HCAs.
type allocation struct {
	claim    *resourceapi.ResourceClaim
	cards    []int
	prepared bool     // the kubelet has an answer
	ids      []string // which it was
	deleted  bool     // the API server has no such claim any more, though a pod uses it
}

// shared reports whether an HCA is offered to many claims (policy).
func shared(card int) bool { return card >= 6 }

// sharesOf is how many claims an HCA is for.
func sharesOf(card int) int {
	if shared(card) {
		return 4
	}
	return 1
}

// free returns the HCAs that the scheduler may still give away.
func (m *model) free(cards int) []int {
	var out []int
	for card := range cards {
		taken := 0
		for _, a := range m.claims {
			if slices.Contains(a.cards, card) {
				taken++
			}
		}
		if taken < sharesOf(card) {
			out = append(out, card)
		}
	}
	return out
}

// allocate makes a claim with one HCA, or two of a kind.
func (m *model) allocate(h *hardware, cards ...int) *allocation {
	m.next++
	var names []string
	for _, c := range cards {
		name := h.cards[c].device()
		if shared(c) {
			name = "shared-" + name
		}
		names = append(names, name)
	}
	claim := drivertest.Claim(m.next, names...)
	if shared(cards[0]) {
		claim = drivertest.Share(m.next, nil, names...)
	}
	drivertest.ForPod(claim, fmt.Sprintf("%08d-0000-4000-8000-00000000c1a1", m.next))
	a := &allocation{claim: claim, cards: cards}
	m.claims = append(m.claims, a)
	return a
}

// usedBy is the UID of the pod that a claim was made for.
func (a *allocation) usedBy() string { return string(a.claim.OwnerReferences[0].UID) }

// end forgets a claim.
func (m *model) end(a *allocation) {
	m.claims = slices.DeleteFunc(m.claims, func(other *allocation) bool { return other == a })
}

// known is what the kubelet knows of claims.
func (m *model) known() invariants.Claims {
	var c invariants.Claims
	for _, a := range m.claims {
		if a.prepared {
			c.Prepared = append(c.Prepared, a.claim)
		} else {
			c.Open = append(c.Open, a.claim)
		}
	}
	return c
}

// there reports whether all HCAs of a claim are there.
func (a *allocation) there(h *hardware) bool {
	return !slices.ContainsFunc(a.cards, func(c int) bool { return h.cards[c].gone })
}

// offered checks the slices that a driver, the n-th, has published: all HCAs that are
// there, and besides those that claims hold, with what is wrong with them in taints. A driver
// that started when such an HCA was away cannot describe it.
func (m *model) offered(h *hardware, driver int, published []resourceapi.ResourceSlice) error {
	names := map[string]bool{}
	taints := map[string]string{}
	for _, s := range published {
		for _, d := range s.Spec.Devices {
			names[d.Name] = true
			for _, t := range d.Taints {
				taints[d.Name] += t.Key + ":" + string(t.Effect)
			}
		}
	}
	for i, c := range h.cards {
		name := poolName(i, c)
		if names[name] && taints[name] != c.taint() {
			return fmt.Errorf("%s has the taints %q, want %q", name, taints[name], c.taint())
		}
		held, prepared := m.holders(i)
		switch {
		case c.gone && prepared && c.seenBy == driver && !names[name]:
			return fmt.Errorf("%s is prepared for a claim, and left its slice when it went", name)
		case !c.gone && !names[name]:
			return fmt.Errorf("%s is there, and not published", name)
		case c.gone && names[name] && !held:
			return fmt.Errorf("%s is published, and neither there nor held", name)
		}
		delete(names, name)
	}
	if len(names) > 0 {
		return fmt.Errorf("published are also %v", names)
	}
	return nil
}

// poolName is the name of the device that the driver publishes for an HCA.
func poolName(i int, c card) string {
	if shared(i) {
		return "shared-" + c.device()
	}
	return c.device()
}

// told checks what the kubelet was told of the health of devices.
func told(h *hardware, report []*healthpb.DeviceHealth) error {
	for i, c := range h.cards {
		want := healthpb.HealthStatus_HEALTHY
		if c.taint() != "" {
			want = healthpb.HealthStatus_UNHEALTHY
		}
		at := slices.IndexFunc(report, func(d *healthpb.DeviceHealth) bool { return d.Device.DeviceName == poolName(i, c) })
		if at < 0 {
			if c.gone {
				continue // it may not be published
			}
			return fmt.Errorf("the kubelet hears nothing of %s", poolName(i, c))
		}
		if got := report[at]; got.Health != want || (got.Message == "") != (want == healthpb.HealthStatus_HEALTHY) {
			return fmt.Errorf("the kubelet hears of %s %v %q, want %v", poolName(i, c), got.Health, got.Message, want)
		}
	}
	return nil
}

// holders reports whether a claim was allocated an HCA, and whether one of those is
// prepared.
func (m *model) holders(card int) (held, prepared bool) {
	for _, a := range m.claims {
		if slices.Contains(a.cards, card) {
			held, prepared = true, prepared || a.prepared
		}
	}
	return held, prepared
}
