package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
	"github.com/rdma-dev/dra-driver-rdma/pkg/rdma"
)

// ExpressionError is an expression that cannot be compiled, or evaluated on a device.
type ExpressionError struct{ error }

// Unwrap returns the error of the expression.
func (e ExpressionError) Unwrap() error { return e.error }

// expressions evaluates CEL as the scheduler does. It compiles an expression once.
type expressions struct{ *cel.Cache }

// matches evaluates an expression on a device.
func (e expressions) matches(ctx context.Context, expression string, d *Device) (bool, error) {
	compiled := e.GetOrCompile(expression)
	if compiled.Error != nil {
		return false, ExpressionError{fmt.Errorf("compile %s: %w", text.Foreign(expression), text.Error(compiled.Error))}
	}
	ok, _, err := compiled.DeviceMatches(ctx, cel.Device{
		Driver: d.Slice.Spec.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations,
		Attributes: d.Attributes, Capacity: d.Capacity,
	})
	if err != nil {
		err = fmt.Errorf("evaluate %s on %s: %w", text.Foreign(expression), d, text.Error(cel.EnhanceRuntimeError(err)))
		return false, ExpressionError{err}
	}
	return ok, nil
}

// FirstMismatch returns the index of the first selector that a device does not match,
// -1 if it matches all.
func (e expressions) FirstMismatch(
	ctx context.Context, selectors []resourceapi.DeviceSelector, d *Device,
) (int, error) {
	for i, s := range selectors {
		if s.CEL == nil {
			return i, ExpressionError{errors.New("the selector is of a kind that this program does not know")}
		}
		if ok, err := e.matches(ctx, s.CEL.Expression, d); err != nil || !ok {
			return i, err
		}
	}
	return -1, nil
}

// ofClass returns the devices that match the selectors of a class.
func (v *View) ofClass(ctx context.Context, class *resourceapi.DeviceClass) ([]*Device, error) {
	var out []*Device
	for _, d := range v.Devices {
		i, err := v.CEL.FirstMismatch(ctx, class.Spec.Selectors, d)
		if err != nil {
			return nil, fmt.Errorf("selector %d of DeviceClass %s: %w", i+1, class.Name, err)
		}
		if i < 0 {
			out = append(out, d)
		}
	}
	return out, nil
}

// ClassesOfDriver returns the classes that select a device of this driver, or name it in their selectors.
func (v *View) ClassesOfDriver(ctx context.Context) map[string]bool {
	out := map[string]bool{}
	for name, class := range v.Classes {
		if out[name] = IsOurs(class); !out[name] {
			devices, err := v.ofClass(ctx, class) // a class with an error selects nothing
			ours := func(d *Device) bool { return d.Slice.Spec.Driver == rdma.Domain }
			out[name] = err == nil && slices.ContainsFunc(devices, ours)
		}
	}
	return out
}

// IsOurs reports whether a class names this driver in its selectors.
func IsOurs(class *resourceapi.DeviceClass) bool {
	return slices.ContainsFunc(class.Spec.Selectors, func(s resourceapi.DeviceSelector) bool {
		return s.CEL != nil && strings.Contains(s.CEL.Expression, rdma.Domain)
	})
}
