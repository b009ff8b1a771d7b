package v1alpha1

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Marks are how libraries mark their packets. An unset field takes the value of the next level: claim, class, rule
// of the policy, library.
type Marks struct {
	// TrafficClass is the traffic class of packets: for RoCE v2 four times the DSCP. The driver sets the
	// variables of the libraries that env names with nccl, nvshmem, ucx or vllm. A program can choose another one.
	// Defaults to that of the HCA's rule in the policy; without it the library chooses.
	TrafficClass *int `json:"trafficClass,omitempty" jsonschema:"minimum=0,maximum=255"`
	// ServiceLevel is the service level of packets: for RoCE the Ethernet priority. It is used like
	// trafficClass.
	ServiceLevel *int `json:"serviceLevel,omitempty" jsonschema:"minimum=0,maximum=15"`
}

// AllowMarks bound the marks of a claim. An unset field allows none.
type AllowMarks struct {
	// TrafficClasses are the traffic classes that a claim may request. Defaults to none.
	TrafficClasses []int `json:"trafficClasses,omitempty" jsonschema:"uniqueItems=true,minimum=0,maximum=255"`
	// ServiceLevels are the service levels that a claim may request. Defaults to none.
	ServiceLevels []int `json:"serviceLevels,omitempty" jsonschema:"uniqueItems=true,minimum=0,maximum=15"`
}

// These are the highest marks. The lowest are 0.
const (
	MaxTrafficClass = 255
	MaxServiceLevel = 15
)

func (m Marks) validate(path *field.Path) field.ErrorList {
	errs := validateMark(m.TrafficClass, MaxTrafficClass, path.Child("trafficClass"))
	return append(errs, validateMark(m.ServiceLevel, MaxServiceLevel, path.Child("serviceLevel"))...)
}

func validateMark(n *int, most int, path *field.Path) field.ErrorList {
	if n == nil || *n >= 0 && *n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *n, fmt.Sprintf("want 0 to %d", most))}
}

func (a AllowMarks) validate(path *field.Path) field.ErrorList {
	errs := validateAllowed(a.TrafficClasses, MaxTrafficClass, path.Child("trafficClasses"))
	return append(errs, validateAllowed(a.ServiceLevels, MaxServiceLevel, path.Child("serviceLevels"))...)
}

func validateAllowed(list []int, most int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, n := range list {
		errs = append(errs, validateMark(&n, most, path.Index(i))...)
		if slices.Contains(list[:i], n) {
			errs = append(errs, field.Duplicate(path.Index(i), n))
		}
	}
	return errs
}

// check returns an error for each mark that is not allowed.
func (a AllowMarks) check(m Marks, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(n *int, allowed []int, name, by string) {
		if n != nil && !slices.Contains(allowed, *n) {
			errs = append(errs, field.Forbidden(path.Child(name), fmt.Sprintf(
				"%d is not allowed by the DeviceClass: its HCAClassConfig lists what is under allow.%s", *n, by)))
		}
	}
	forbid(m.TrafficClass, a.TrafficClasses, "trafficClass", "trafficClasses")
	forbid(m.ServiceLevel, a.ServiceLevels, "serviceLevel", "serviceLevels")
	return errs
}
