package inspect

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// expressionError is an expression that cannot be compiled, or evaluated on a device.
type expressionError struct{ error }

func (e expressionError) Unwrap() error { return e.error }

// expressions evaluates CEL as the scheduler does. It compiles an expression once.
type expressions struct{ *cel.Cache }

// matches evaluates an expression on a device.
func (e expressions) matches(ctx context.Context, expression string, d *device) (bool, error) {
	compiled := e.GetOrCompile(expression)
	if compiled.Error != nil {
		return false, expressionError{fmt.Errorf("compile %s: %w", text.Foreign(expression), text.Error(compiled.Error))}
	}
	ok, _, err := compiled.DeviceMatches(ctx, cel.Device{
		Driver: d.slice.Spec.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations,
		Attributes: d.Attributes, Capacity: d.Capacity,
	})
	if err != nil {
		err = fmt.Errorf("evaluate %s on %s: %w", text.Foreign(expression), d, text.Error(cel.EnhanceRuntimeError(err)))
		return false, expressionError{err}
	}
	return ok, nil
}

// firstMismatch returns the index of the first selector that a device does not match,
// -1 if it matches all.
func (e expressions) firstMismatch(
	ctx context.Context, selectors []resourceapi.DeviceSelector, d *device,
) (int, error) {
	for i, s := range selectors {
		if s.CEL == nil {
			return i, expressionError{errors.New("the selector is of a kind that this program does not know")}
		}
		if ok, err := e.matches(ctx, s.CEL.Expression, d); err != nil || !ok {
			return i, err
		}
	}
	return -1, nil
}

// ofClass returns the devices that match the selectors of a class.
func (v *view) ofClass(ctx context.Context, class *resourceapi.DeviceClass) ([]*device, error) {
	var out []*device
	for _, d := range v.devices {
		i, err := v.cel.firstMismatch(ctx, class.Spec.Selectors, d)
		if err != nil {
			return nil, fmt.Errorf("selector %d of DeviceClass %s: %w", i+1, class.Name, err)
		}
		if i < 0 {
			out = append(out, d)
		}
	}
	return out, nil
}
