package v1alpha1

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxLimit is the highest limit that the kernel accepts as a number
// (kernel/cgroup/rdma.c).
const MaxLimit = math.MaxInt32

// LimitFields are the names of the limits, also as capacities of a shared HCA.
var LimitFields = []string{"handles", "objects"}

// Get returns the limit with that name, 0 if it is not set.
func (l Limits) Get(name string) int64 {
	q := l.Handles
	if name == "objects" {
		q = l.Objects
	}
	if q == nil {
		return 0
	}
	return q.Value.Value()
}

func (l Limits) validate(path *field.Path) field.ErrorList {
	return append(validateLimit(l.Handles, path.Child("handles")), validateLimit(l.Objects, path.Child("objects"))...)
}

func validateLimit(q *Quantity, path *field.Path) field.ErrorList {
	if q == nil {
		return nil
	}
	if n, ok := whole(q.Value); !ok || n > MaxLimit {
		return field.ErrorList{field.Invalid(path, q.Value.String(),
			fmt.Sprintf("want a whole number from 1 to %d; leave the field out for no limit", MaxLimit))}
	}
	return nil
}

// checkMax returns an error for each limit above the maximum of a class.
func (l Limits) checkMax(limit Limits, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range LimitFields {
		if have, highest := l.Get(name), limit.Get(name); highest > 0 && have > highest {
			errs = append(errs, field.Forbidden(path.Child(name), fmt.Sprintf(
				"%d is more than the DeviceClass allows: its HCAClassConfig has allow.limitsMax.%s %d", have, name, highest)))
		}
	}
	return errs
}
