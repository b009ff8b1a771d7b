package health

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// EffectOff is the effect of a condition that sets no taint.
const EffectOff resourceapi.DeviceTaintEffect = "Off"

// Policy maps conditions to taints.
type Policy struct {
	// Effects are the effects that differ from the defaults.
	Effects map[Condition]resourceapi.DeviceTaintEffect
	// Informational publishes taints of effect None. API servers before Kubernetes
	// 1.36 do not know that effect, and refuse the whole slice where they have the
	// feature gate DRADeviceTaints.
	Informational bool
}

// Effect returns the effect of a condition. A condition that comes from a counter never evicts.
func (p Policy) Effect(c Condition) resourceapi.DeviceTaintEffect {
	consequence := consequenceOf(c)
	if consequence == nil {
		return EffectOff
	}
	effect, ok := p.Effects[c]
	switch {
	case !ok:
		return consequence.effect
	case effect == resourceapi.DeviceTaintEffectNoExecute && c.is(counted):
		return resourceapi.DeviceTaintEffectNoSchedule
	}
	return effect
}

// taints returns the taints of an HCA, sorted by key, nil for none, where one card of the node may have the effects of
// conditions of sick links. They have no value and no time. The slice controller keeps TimeAdded while key, value and
// effect stay the same. A value from the kernel's reason would change too often.
func (p Policy) taints(v Verdict, sickCard string) []resourceapi.DeviceTaint {
	var taints []resourceapi.DeviceTaint
	for _, f := range v.Faults {
		effect := p.Effect(f.Condition)
		if effect == resourceapi.DeviceTaintEffectNoExecute && !f.Confirmed {
			effect = resourceapi.DeviceTaintEffectNoSchedule
		}
		if p.holdsBack(v, f, sickCard) {
			effect = resourceapi.DeviceTaintEffectNone
		}
		if effect == EffectOff || effect == resourceapi.DeviceTaintEffectNone && !p.Informational {
			continue
		}
		taints = append(taints, resourceapi.DeviceTaint{Key: f.Condition.Key(), Effect: effect})
	}
	slices.SortFunc(taints, func(a, b resourceapi.DeviceTaint) int { return strings.Compare(a.Key, b.Key) })
	return taints
}

var effects = []resourceapi.DeviceTaintEffect{
	resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, EffectOff,
}

// Effects returns the possible effects of a condition's taint.
func Effects() []resourceapi.DeviceTaintEffect { return slices.Clone(effects) }

// ParseEffect parses the name of a condition's taint, with or without the domain, and its
// effect.
func ParseEffect(name, effect string) (Condition, resourceapi.DeviceTaintEffect, error) {
	c, parsed := Condition(strings.TrimPrefix(name, rdma.Domain+"/")), resourceapi.DeviceTaintEffect(effect)
	if consequenceOf(c) == nil {
		return "", "", fmt.Errorf("%q is no taint of this driver, want one of %v", name, Conditions())
	}
	if !slices.Contains(effects, parsed) {
		return "", "", fmt.Errorf("%q is no effect, want one of %v", effect, effects)
	}
	return c, parsed, nil
}
