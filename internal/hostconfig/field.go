package hostconfig

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/rdma-dev/dra-driver-rdma/internal/yamlpath"
	"github.com/rdma-dev/dra-driver-rdma/internal/yamlread"
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

// fieldErrors collects FieldErrors.
type fieldErrors []error

func (errs *fieldErrors) add(field string, err error) {
	if err != nil {
		*errs = append(*errs, &FieldError{field, err})
	}
}

// locate adds the line of the field to each joined FieldError, and sorts the errors by line.
func locate(err error, data []byte) error {
	if err == nil {
		return nil
	}
	fields := yamlpath.Of(data)
	line := func(err error) int { // 0 if the field is missing
		field, ok := errors.AsType[*FieldError](err)
		if !ok {
			return 0
		}
		return fields.Own(field.Field)
	}
	errs := flatten(err)
	slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(line(a), line(b)) })
	for i, e := range errs {
		if n := line(e); n > 0 {
			errs[i] = fmt.Errorf("line %d: %w", n, e)
		}
	}
	return yamlread.Join(errs)
}

// flatten splits joined errors.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, flatten(e)...)
	}
	return errs
}

var goType = regexp.MustCompile(` in type \S+$`)

// explain removes the names of Go types from the YAML decoder's errors.
func explain(err error) error {
	typeError, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	return yamlread.JoinTexts(typeError.Errors,
		func(text string) error { return errors.New(goType.ReplaceAllString(text, "")) })
}
