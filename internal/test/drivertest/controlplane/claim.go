package controlplane

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is a request for devices of a class, as a claim words it.
type Request struct {
	Name, Class string
	Count       int64    // 0 for 1
	Selectors   []string // CEL
	Capacity    map[string]string
	Admin       bool
	// First makes it a request for the first of these that is available.
	First []Request
}

// Want is a request for one device.
func Want(name, class string, selectors ...string) Request {
	return Request{Name: name, Class: class, Selectors: selectors}
}

// Claim makes a claim of requests.
func Claim(requests ...Request) resourceapi.DeviceClaim {
	var c resourceapi.DeviceClaim
	for _, r := range requests {
		c.Requests = append(c.Requests, r.request())
	}
	return c
}

// Match returns the claim with a constraint: the requests' devices have the same
// value of an attribute. Without requests it is for all.
func Match(c resourceapi.DeviceClaim, attribute string, requests ...string) resourceapi.DeviceClaim {
	name := resourceapi.FullyQualifiedName(attribute)
	c.Constraints = append(c.Constraints, resourceapi.DeviceConstraint{MatchAttribute: &name, Requests: requests})
	return c
}

// Distinct returns the claim with a constraint: the requests' devices have different
// values of an attribute.
func Distinct(c resourceapi.DeviceClaim, attribute string, requests ...string) resourceapi.DeviceClaim {
	name := resourceapi.FullyQualifiedName(attribute)
	c.Constraints = append(c.Constraints, resourceapi.DeviceConstraint{DistinctAttribute: &name, Requests: requests})
	return c
}

// Class makes a class that selects by expressions.
func Class(name string, selectors ...string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: cels(selectors)},
	}
}

func (r Request) request() resourceapi.DeviceRequest {
	out := resourceapi.DeviceRequest{Name: r.Name}
	if r.First == nil {
		out.Exactly = &resourceapi.ExactDeviceRequest{
			DeviceClassName: r.Class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: max(r.Count, 1),
			Selectors: cels(r.Selectors), Capacity: r.capacity(),
		}
		if r.Admin {
			out.Exactly.AdminAccess = new(true)
		}
		return out
	}
	for _, sub := range r.First {
		out.FirstAvailable = append(out.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: sub.Name, DeviceClassName: sub.Class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: max(sub.Count, 1),
			Selectors: cels(sub.Selectors), Capacity: sub.capacity(),
		})
	}
	return out
}

func (r Request) capacity() *resourceapi.CapacityRequirements {
	if r.Capacity == nil {
		return nil
	}
	out := &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}
	for name, value := range r.Capacity {
		out.Requests[resourceapi.QualifiedName(name)] = resource.MustParse(value)
	}
	return out
}

func cels(expressions []string) []resourceapi.DeviceSelector {
	var out []resourceapi.DeviceSelector
	for _, e := range expressions {
		out = append(out, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
	}
	return out
}
