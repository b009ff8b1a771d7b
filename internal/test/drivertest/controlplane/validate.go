package controlplane

import (
	"context"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate checks a slice as the API server does. It runs the generated validation of
// the API server. It also checks the rules that the API server keeps in its own tree
// (kubernetes/pkg/apis/resource/validation/validation.go, v1.36.3). Here is a copy of
// these rules for what the driver uses.
func Validate(s *resourceapi.ResourceSlice) error {
	op := operation.Operation{Type: operation.Create, Options: map[string]bool{"DRAPartitionableDevicesType": false}}
	v := validator{errs: resourceapi.Validate_ResourceSliceSpec(context.Background(), op, field.NewPath("spec"), &s.Spec, nil)}
	v.slice(field.NewPath("spec"), &s.Spec)
	return v.errs.ToAggregate()
}

type validator struct{ errs field.ErrorList }

func (v *validator) bad(path *field.Path, value any, messages ...string) {
	for _, m := range messages {
		v.errs = append(v.errs, field.Invalid(path, value, m))
	}
}

func (v *validator) slice(path *field.Path, spec *resourceapi.ResourceSliceSpec) {
	v.bad(path.Child("driver"), spec.Driver, validation.IsDNS1123Subdomain(spec.Driver)...)
	// 128 without taints and counters; the driver keeps to 64, so that the first
	// taint makes no slice invalid.
	if n := len(spec.Devices); n > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures {
		v.bad(path.Child("devices"), n, "too many")
	}
	if spec.Devices != nil && spec.SharedCounters != nil {
		v.bad(path, "", "only one of sharedCounters or devices is allowed")
	}
	if n := len(spec.SharedCounters); n > resourceapi.ResourceSliceMaxCounterSets {
		v.bad(path.Child("sharedCounters"), n, "too many")
	}
	for i, set := range spec.SharedCounters {
		set, path := set, path.Child("sharedCounters").Index(i)
		v.bad(path.Child("name"), set.Name, validation.IsDNS1123Label(set.Name)...)
		v.counters(path, set.Counters, resourceapi.ResourceSliceMaxCountersPerCounterSet)
	}
	for i := range spec.Devices {
		v.device(path.Child("devices").Index(i), &spec.Devices[i])
	}
}

func (v *validator) counters(path *field.Path, counters map[string]resourceapi.Counter, most int) {
	if n := len(counters); n == 0 || n > most {
		v.bad(path.Child("counters"), n, "none or too many")
	}
	for name := range counters {
		v.bad(path.Child("counters"), name, validation.IsDNS1123Label(name)...)
	}
}

func (v *validator) device(path *field.Path, d *resourceapi.Device) {
	v.bad(path.Child("name"), d.Name, validation.IsDNS1123Label(d.Name)...)
	v.bad(path.Child("name"), d.Name, apivalidation.NameIsDNSLabel(d.Name, false)...)
	if n := len(d.Attributes) + len(d.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		v.bad(path, n, "too many attributes and capacities")
	}
	for name, a := range d.Attributes {
		path := path.Child("attributes").Key(string(name))
		v.name(path, name)
		if a.StringValue != nil && (*a.StringValue == "" || len(*a.StringValue) > resourceapi.DeviceAttributeMaxValueLength) {
			v.bad(path, *a.StringValue, "the value is empty or too long")
		}
	}
	for name, c := range d.Capacity {
		path := path.Child("capacity").Key(string(name))
		v.name(path, name)
		v.capacity(path, c, d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations)
	}
	if n := len(d.ConsumesCounters); n > resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice {
		v.bad(path.Child("consumesCounters"), n, "too many")
	}
	for i, c := range d.ConsumesCounters {
		path := path.Child("consumesCounters").Index(i)
		v.bad(path.Child("counterSet"), c.CounterSet, validation.IsDNS1123Label(c.CounterSet)...)
		v.counters(path, c.Counters, resourceapi.ResourceSliceMaxCountersPerDeviceCounterConsumption)
	}
	for i, taint := range d.Taints {
		v.bad(path.Child("taints").Index(i), taint.Key, validation.IsQualifiedName(taint.Key)...)
	}
}

func (v *validator) name(path *field.Path, name resourceapi.QualifiedName) {
	domain, id, qualified := strings.Cut(string(name), "/")
	if !qualified {
		domain, id = "", domain
	} else {
		v.bad(path, name, validation.IsDNS1123Subdomain(domain)...)
	}
	v.bad(path, name, validation.IsCIdentifier(id)...)
	if len(id) > resourceapi.DeviceMaxIDLength || len(domain) > resourceapi.DeviceMaxDomainLength {
		v.bad(path, name, "too long")
	}
}

// capacity is validateRequestPolicy for policies with a range.
func (v *validator) capacity(path *field.Path, c resourceapi.DeviceCapacity, multiple bool) {
	path = path.Child("requestPolicy")
	policy := c.RequestPolicy
	switch {
	case policy == nil:
		return
	case !multiple:
		v.bad(path, "", "allowMultipleAllocations must be true")
		return
	case policy.Default == nil || policy.ValidRange == nil || policy.ValidRange.Min == nil:
		v.bad(path, "", "a capacity of this driver has a default and a range")
		return
	}
	low := *policy.ValidRange.Min
	if low.Cmp(c.Value) > 0 || policy.Default.Cmp(low) < 0 || policy.Default.Cmp(c.Value) > 0 {
		v.bad(path, policy.Default.String(), fmt.Sprintf("want %s <= default <= %s", low.String(), c.Value.String()))
	}
	if step := policy.ValidRange.Step; step != nil {
		v.step(path.Child("validRange", "step"), c.Value, low, *policy.Default, *step)
	}
}

func (v *validator) step(path *field.Path, value, low, byDefault, step resource.Quantity) {
	first := low.DeepCopy()
	first.Add(step)
	if first.Cmp(value) > 0 {
		v.bad(path, step.String(), fmt.Sprintf("one step %s is larger than capacity value: %s", first.String(), value.String()))
	}
	if (byDefault.Value()-low.Value())%step.Value() != 0 {
		v.bad(path, byDefault.String(), "default is no multiple of a step from min")
	}
}
