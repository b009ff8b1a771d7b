package hostconfig

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
)

// FieldError is an error in a field.
type FieldError struct {
	Field string // such as mounts[0]
	Err   error
}

// Error implements the error interface.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the underlying error.
func (e *FieldError) Unwrap() error { return e.Err }

// FieldErrors are the errors of several fields.
type FieldErrors []*FieldError

func (errs *FieldErrors) add(field string, err error) {
	if err != nil {
		*errs = append(*errs, &FieldError{field, err})
	}
}

// locate adds its line to each error, and sorts the errors by line.
func locate(fields FieldErrors, data []byte) error {
	positions := yamlread.PositionsOf(data)
	line := func(e *FieldError) int { return positions.Own(e.Field) } // 0 if the field is missing
	slices.SortStableFunc(fields, func(a, b *FieldError) int { return cmp.Compare(line(a), line(b)) })
	var errs []error
	for _, e := range fields {
		if n := line(e); n > 0 {
			errs = append(errs, fmt.Errorf("line %d: %w", n, e))
		} else {
			errs = append(errs, e)
		}
	}
	return yamlread.Join(errs)
}
