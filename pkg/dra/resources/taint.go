package resources

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/rdma-dev/dra-driver-rdma/pkg/dra/health"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// fewTaints is the most taints of a device in Kubernetes 1.34, which refuses a whole slice with more.
const fewTaints = 4

// TaintDraining is the key of the taint that keeps new claims off a draining device. The device leaves the pool when
// the last claim that holds it ends.
const TaintDraining = rdma.Domain + "/draining"

// taints returns the taints of a device, sorted by key, nil for none.
func (m maker) taints(draining bool, faults []resourceapi.DeviceTaint) []resourceapi.DeviceTaint {
	if m.NoTaints {
		return nil
	}
	out := slices.Clone(faults)
	if draining {
		out = append(out, resourceapi.DeviceTaint{Key: TaintDraining, Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	slices.SortFunc(out, func(a, b resourceapi.DeviceTaint) int { return cmp.Compare(a.Key, b.Key) })
	if m.FewTaints {
		return health.Strongest(out, fewTaints)
	}
	return health.Strongest(out, resourceapi.DeviceTaintsMaxLength)
}

// taintsOf returns the taints of the HCAs of offers, by name.
func taintsOf(offers []Offer) map[string][]resourceapi.DeviceTaint {
	out := map[string][]resourceapi.DeviceTaint{}
	for _, o := range offers {
		out[o.HCA.Name] = o.Taints
	}
	return out
}

// groupTaints returns the taints of a group, none if one member has no fault that keeps claims away. Claims of the
// group have all members and use the working ones, so one working member is enough. Pods are evicted only if the taints
// of every member evict.
func groupTaints(members []*rdma.HCA, taints map[string][]resourceapi.DeviceTaint) []resourceapi.DeviceTaint {
	effect := resourceapi.DeviceTaintEffectNoExecute
	keys := map[string]bool{}
	var out []resourceapi.DeviceTaint
	for _, h := range members {
		switch {
		case has(taints[h.Name], resourceapi.DeviceTaintEffectNoExecute):
		case has(taints[h.Name], resourceapi.DeviceTaintEffectNoSchedule):
			effect = resourceapi.DeviceTaintEffectNoSchedule
		default:
			return nil
		}
		for _, t := range taints[h.Name] {
			if !keys[t.Key] && t.Effect != resourceapi.DeviceTaintEffectNone {
				keys[t.Key] = true
				out = append(out, resourceapi.DeviceTaint{Key: t.Key})
			}
		}
	}
	for i := range out {
		out[i].Effect = effect
	}
	return out
}

func has(taints []resourceapi.DeviceTaint, effect resourceapi.DeviceTaintEffect) bool {
	return slices.ContainsFunc(taints, func(t resourceapi.DeviceTaint) bool { return t.Effect == effect })
}
