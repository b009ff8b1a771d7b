package policy

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/resources"
)

// TaintEffects returns the effects of taints that differ from the defaults.
func (c *Config) TaintEffects() map[health.Condition]resourceapi.DeviceTaintEffect {
	return maps.Clone(c.taints)
}

// taints parses the effects of taints.
func (p *problems) taints(entries map[string]string) map[health.Condition]resourceapi.DeviceTaintEffect {
	out := map[health.Condition]resourceapi.DeviceTaintEffect{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		c, effect, err := health.ParseEffect(name, entries[name])
		if err != nil {
			p.add("taints."+name, "%w", err)
			continue
		}
		if _, twice := out[c]; twice {
			p.add("taints."+name, "the effect of %s is set twice, with and without the domain", c)
		}
		out[c] = effect
	}
	return out
}

// withholdTainted withholds HCAs whose taints would keep new claims away, if the API server
// has no taints. Held HCAs stay published.
func (a *application) withholdTainted() {
	if !a.state.NoTaints {
		return
	}
	for i := range a.result.Decisions {
		d := &a.result.Decisions[i]
		if key := keepsAway(a.state.Taints[d.HCA.Name]); key != "" && d.Form != resources.FormNone {
			d.withhold("%s: the API server has no device taints (feature gate DRADeviceTaints) to keep new claims off it",
				key)
		}
	}
}

// keepsAway returns the key of a taint that keeps new claims away, "" if there is none.
func keepsAway(taints []resourceapi.DeviceTaint) string {
	for _, t := range taints {
		if t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute {
			return t.Key
		}
	}
	return ""
}
