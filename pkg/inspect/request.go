package inspect

import resourceapi "k8s.io/api/resource/v1"

// request is a request of a claim, or one alternative of a firstAvailable list. The API has two
// types with the same fields for them.
type request struct {
	name        string // with the alternative: nic/fast
	class       string
	count       int64 // 0 for all matching devices
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	admin       bool
}

func requestsOf(claim *resourceapi.ResourceClaim) []request {
	var out []request
	for _, r := range claim.Spec.Devices.Requests {
		if e := r.Exactly; e != nil {
			out = append(out, request{
				name: r.Name, class: e.DeviceClassName, count: countOf(e.AllocationMode, e.Count),
				selectors: e.Selectors, tolerations: e.Tolerations, capacity: e.Capacity, admin: deref(e.AdminAccess),
			})
		}
		for _, s := range r.FirstAvailable {
			out = append(out, request{
				name: r.Name + "/" + s.Name, class: s.DeviceClassName, count: countOf(s.AllocationMode, s.Count),
				selectors: s.Selectors, tolerations: s.Tolerations, capacity: s.Capacity,
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

// editRequests calls edit with the changeable fields of each request of a claim.
func editRequests(claim *resourceapi.ResourceClaim, edit func(name string, f fields)) {
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			edit(r.Name, fields{&e.Selectors, &e.Tolerations, &e.Capacity, &e.Count})
		}
		for j := range r.FirstAvailable {
			s := &r.FirstAvailable[j]
			edit(r.Name+"/"+s.Name, fields{&s.Selectors, &s.Tolerations, &s.Capacity, &s.Count})
		}
	}
}

// fields are the fields of a request that whatIf changes.
type fields struct {
	selectors   *[]resourceapi.DeviceSelector
	tolerations *[]resourceapi.DeviceToleration
	capacity    **resourceapi.CapacityRequirements
	count       *int64
}
