package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// Taint is a taint of a device, with the name of the DeviceTaintRule that sets it. It is "" for a taint of the slice.
type Taint struct {
	*resourceapi.DeviceTaint
	Rule string
	// Drain is what the rule says, nil for another rule.
	Drain *Drain
}

// String names the taint, its effect and its rule.
func (t Taint) String() string { return fmt.Sprintf("%s (%s)%s", t.Key, t.Effect, t.by()) }

func (t Taint) by() string {
	if t.Rule == "" {
		return ""
	}
	out := " by DeviceTaintRule " + t.Rule
	if t.Drain != nil {
		out += t.Drain.by()
	}
	return out
}

// KeepsAway reports whether the taint keeps new claims away. The allocator ignores effects that it does not know.
func (t Taint) KeepsAway() bool {
	return t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute
}

// DrainingTaint is the key of the driver's taint of a device that only its claims keep published.
const DrainingTaint = rdma.Domain + "/draining"

// OfDriver reports whether the key is the driver's: a condition of docs/health.md, or DrainingTaint.
func (t Taint) OfDriver() bool { return strings.HasPrefix(t.Key, rdma.Domain+"/") }

// selects reports whether a rule selects a device. A rule without a selector selects none.
func selects(rule *resourceapi.DeviceTaintRule, s *resourceapi.ResourceSlice, device string) bool {
	want := rule.Spec.DeviceSelector
	return want != nil && (want.Driver == nil || *want.Driver == s.Spec.Driver) &&
		(want.Pool == nil || *want.Pool == s.Spec.Pool.Name) && (want.Device == nil || *want.Device == device)
}

// withRules returns a slice whose devices also have the taints of the rules that select them. The scheduler gives such
// slices to its allocator: see resourceslice/tracker, which needs informers. It returns s itself if no rule selects a
// device of it, and never changes s.
func withRules(s *resourceapi.ResourceSlice, rules []resourceapi.DeviceTaintRule) *resourceapi.ResourceSlice {
	out := s
	for i := range s.Spec.Devices {
		for j := range rules {
			if !selects(&rules[j], s, s.Spec.Devices[i].Name) {
				continue
			}
			if out == s {
				out = s.DeepCopy()
			}
			out.Spec.Devices[i].Taints = append(out.Spec.Devices[i].Taints, rules[j].Spec.Taint)
		}
	}
	return out
}

// rulesOf returns the rules that select a device, in the order in which withRules adds their taints.
func rulesOf(rules []resourceapi.DeviceTaintRule, s *resourceapi.ResourceSlice,
	device string) (out []*resourceapi.DeviceTaintRule) {
	for i := range rules {
		if selects(&rules[i], s, device) {
			out = append(out, &rules[i])
		}
	}
	return out
}

// AllTaints returns the taints of a device: those of its slice, then those of rules.
func (d *Device) AllTaints() []Taint {
	own := len(d.Taints) - len(d.rules)
	out := make([]Taint, 0, len(d.Taints))
	for i := range d.Taints {
		t := Taint{DeviceTaint: &d.Taints[i]}
		if i >= own {
			t.Rule, t.Drain = d.rules[i-own].Name, DrainOf(d.rules[i-own])
		}
		out = append(out, t)
	}
	return out
}

// Untolerated returns the taints of a device that keep claims with these tolerations away.
func Untolerated(d *Device, tolerations []resourceapi.DeviceToleration) []Taint {
	return slices.DeleteFunc(d.AllTaints(), func(t Taint) bool {
		return !t.KeepsAway() || slices.ContainsFunc(tolerations, func(toleration resourceapi.DeviceToleration) bool {
			return resourceclaim.ToleratesTaint(toleration, *t.DeviceTaint)
		})
	})
}

// Evicts reports whether a taint ends the pods of an allocated device that has these tolerations, and how long after it
// was added. It is the rule of the controller that ends them, which differs from the scheduler's: a toleration counts
// only if it names the effect NoExecute, one without seconds counts for ever, and of several the shortest time counts.
// See claimEvictionTime in pkg/controller/devicetainteviction of Kubernetes 1.37; TestDrain of test/cluster/e2e/plugin
// asks that controller.
func Evicts(t *resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration) (after time.Duration, _ bool) {
	if t.Effect != resourceapi.DeviceTaintEffectNoExecute {
		return 0, false
	}
	seconds, tolerated := int64(math.MaxInt64), false
	for _, toleration := range tolerations {
		if toleration.Effect != resourceapi.DeviceTaintEffectNoExecute || !resourceclaim.ToleratesTaint(toleration, *t) {
			continue
		}
		if toleration.TolerationSeconds == nil {
			return 0, false
		}
		seconds, tolerated = min(seconds, max(0, *toleration.TolerationSeconds)), true
	}
	if !tolerated {
		return 0, true
	}
	return time.Duration(seconds) * time.Second, true
}

// TaintNames names taints in one line.
func TaintNames(taints []Taint) string {
	var names []string
	for _, t := range taints {
		names = AppendNew(names, t.String())
	}
	return List(names, "", 4)
}
