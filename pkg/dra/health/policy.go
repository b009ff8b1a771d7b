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

// Effect returns the effect of a condition.
func (p Policy) Effect(c Condition) resourceapi.DeviceTaintEffect {
	if effect, ok := p.Effects[c]; ok {
		return effect
	}
	if consequence := consequenceOf(c); consequence != nil {
		return consequence.effect
	}
	return EffectOff
}

// Taints returns the taints of an HCA, sorted by key, nil for none. They have no
// value and no time. The slice controller keeps TimeAdded while key, value and
// effect stay the same. A value from the kernel's reason would change too often.
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
