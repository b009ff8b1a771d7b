package model

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// Request is a request of a claim, or one alternative of a firstAvailable list. The API has two
// types with the same fields for them.
type Request struct {
	Name  string // with the alternative: nic/fast
	Class string
	Count int64 // 0 for all matching devices
	Admin bool
	// These point into the claim, so that whatIf can change it.
	Selectors   *[]resourceapi.DeviceSelector
	Tolerations *[]resourceapi.DeviceToleration
	Capacity    **resourceapi.CapacityRequirements
	Number      *int64
	derived     bool // the request has derived attributes
}

// RequestsOf returns the requests of a claim, and the alternatives of its firstAvailable lists.
func RequestsOf(claim *resourceapi.ResourceClaim) []Request {
	var out []Request
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			out = append(out, Request{
				r.Name, e.DeviceClassName, countOf(e.AllocationMode, e.Count), ptr.Deref(e.AdminAccess, false),
				&e.Selectors, &e.Tolerations, &e.Capacity, &e.Count, len(e.DerivedAttributes) > 0,
			})
		}
		for j := range r.FirstAvailable {
			s := &r.FirstAvailable[j]
			out = append(out, Request{
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
