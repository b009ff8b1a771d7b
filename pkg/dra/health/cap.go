package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// slotOf returns the PCI slot of an HCA, "" for software. The functions of a card share it.
func slotOf(h *rdma.HCA) string {
	slot, _, _ := strings.Cut(h.Identity.PCI, ".")
	return slot
}

// raises reports whether the administrator has raised a condition of a sick link above None.
func (p Policy) raises(c Condition) bool {
	effect := p.Effect(c)
	return c.is(sick) && effect != EffectOff && effect != resourceapi.DeviceTaintEffectNone
}

// sickCard returns the card that keeps its effects of sick links, "" for none: the longest sick. A condition that is
// wrong everywhere, or a switch in trouble, then takes one card from each node, and not all.
func (p Policy) sickCard(verdicts map[string]Verdict) string {
	var card string
	var since Fault
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[name]
		for _, f := range v.Faults {
			if p.raises(f.Condition) && (card == "" || cmp.Or(f.Since.Compare(since.Since), cmp.Compare(v.Card, card)) < 0) {
				card, since = v.Card, f
			}
		}
	}
	return card
}

// holdsBack reports whether the effect of a fault does not hold, because another card has it.
func (p Policy) holdsBack(v Verdict, f Fault, sickCard string) bool {
	return sickCard != "" && v.Card != sickCard && p.raises(f.Condition)
}

// HeldBack returns the HCAs whose taints have effect None because the effect holds for one card of a node at a time,
// sorted, with the conditions, and the card that has the effect.
func (v *View) HeldBack(p Policy) (devices []string, card string) {
	card = p.sickCard(v.verdicts)
	for _, name := range slices.Sorted(maps.Keys(v.verdicts)) {
		for _, f := range v.verdicts[name].Faults {
			if p.holdsBack(v.verdicts[name], f, card) {
				devices = append(devices, name+" ("+string(f.Condition)+")")
			}
		}
	}
	return devices, card
}

// Strongest returns the most important taints of a device, at most a number of them, in their order: by effect, and
// then by condition. An unknown key is more important than a condition.
func Strongest(taints []resourceapi.DeviceTaint, most int) []resourceapi.DeviceTaint {
	if len(taints) <= most {
		return taints
	}
	rank := func(t resourceapi.DeviceTaint) int {
		return slices.IndexFunc(consequences, func(c consequence) bool { return c.condition.Key() == t.Key })
	}
	order := slices.Clone(taints)
	slices.SortStableFunc(order, func(a, b resourceapi.DeviceTaint) int {
		byEffect := cmp.Compare(slices.Index(effects, b.Effect), slices.Index(effects, a.Effect))
		return cmp.Or(byEffect, cmp.Compare(rank(a), rank(b)))
	})
	kept := order[:most]
	weaker := func(t resourceapi.DeviceTaint) bool { return !slices.Contains(kept, t) }
	return slices.DeleteFunc(slices.Clone(taints), weaker)
}
