package inspect

import resourceapi "k8s.io/api/resource/v1"

// request is a request of a claim, or one alternative of a firstAvailable list. The API has two
// types with the same fields for them.
type request struct {
	name  string // with the alternative: nic/fast
	class string
	count int64 // 0 for all matching devices
	admin bool
	// These point into the claim, so that whatIf can change it.
	selectors   *[]resourceapi.DeviceSelector
	tolerations *[]resourceapi.DeviceToleration
	capacity    **resourceapi.CapacityRequirements
	number      *int64
	derived     bool // the request has derived attributes
}

func requestsOf(claim *resourceapi.ResourceClaim) []request {
	var out []request
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			out = append(out, request{
				r.Name, e.DeviceClassName, countOf(e.AllocationMode, e.Count), deref(e.AdminAccess),
				&e.Selectors, &e.Tolerations, &e.Capacity, &e.Count, len(e.DerivedAttributes) > 0,
			})
		}
		for j := range r.FirstAvailable {
			s := &r.FirstAvailable[j]
			out = append(out, request{
				r.Name + "/" + s.Name, s.DeviceClassName, countOf(s.AllocationMode, s.Count), false,
				&s.Selectors, &s.Tolerations, &s.Capacity, &s.Count, len(s.DerivedAttributes) > 0,
			})
		}
	}
	return out
}

func countOf(mode resourceapi.DeviceAllocationMode, count int64) int64 {
	if mode == resourceapi.DeviceAllocationModeAll {
		return 0
	}
	return max(count, 1)
}
