package health

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// EffectOff is the effect of a condition that makes no taint at all.
const EffectOff resourceapi.DeviceTaintEffect = "Off"

// Policy says which taint follows from a condition.
type Policy struct {
	// Effects are the effects that differ from the defaults.
	Effects map[Condition]resourceapi.DeviceTaintEffect
	// Informational publishes taints of effect None. API servers before Kubernetes
	// 1.36 do not know that effect, and refuse the whole slice where they have the
	// feature gate DRADeviceTaints.
	Informational bool
}

// Effect returns the effect of a condition.
func (p Policy) Effect(c Condition) resourceapi.DeviceTaintEffect {
	if effect, ok := p.Effects[c]; ok {
		return effect
	}
	if n := natureOf(c); n != nil {
		return n.effect
	}
	return EffectOff
}

// Taints returns the taints of an HCA, sorted by key, nil for none. They have no
// value and no time: the slice controller keeps TimeAdded as long as key, value
// and effect stay, and a value that followed the kernel's reason would lose it.
func (p Policy) Taints(v Verdict) []resourceapi.DeviceTaint {
	var taints []resourceapi.DeviceTaint
	for _, f := range v.Faults {
		effect := p.Effect(f.Condition)
		if effect == resourceapi.DeviceTaintEffectNoExecute && !f.Confirmed {
			effect = resourceapi.DeviceTaintEffectNoSchedule
		}
		if effect == EffectOff || effect == resourceapi.DeviceTaintEffectNone && !p.Informational {
			continue
		}
		taints = append(taints, resourceapi.DeviceTaint{Key: f.Condition.Key(), Effect: effect})
	}
	slices.SortFunc(taints, func(a, b resourceapi.DeviceTaint) int { return strings.Compare(a.Key, b.Key) })
	return taints
}

// Schedulable reports whether new claims may get the HCA. Where the API server drops
// taints, a device that is not schedulable and that nobody holds is left out.
func (p Policy) Schedulable(v Verdict) bool {
	return !slices.ContainsFunc(p.Taints(v), func(t resourceapi.DeviceTaint) bool {
		return t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute
	})
}

var effects = []resourceapi.DeviceTaintEffect{
	resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, EffectOff,
}

// Effects returns what the taint of a condition can do.
func Effects() []resourceapi.DeviceTaintEffect { return slices.Clone(effects) }

// ParseEffect reads the effect of the taint of a condition, which is named with or
// without the domain.
func ParseEffect(name, effect string) (Condition, resourceapi.DeviceTaintEffect, error) {
	c, parsed := Condition(strings.TrimPrefix(name, Domain+"/")), resourceapi.DeviceTaintEffect(effect)
	if natureOf(c) == nil {
		return "", "", fmt.Errorf("%q is no taint of this driver, want one of %v", name, Conditions())
	}
	if !slices.Contains(effects, parsed) {
		return "", "", fmt.Errorf("%q is no effect, want one of %v", effect, effects)
	}
	return c, parsed, nil
}
