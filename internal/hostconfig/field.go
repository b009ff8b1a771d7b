package hostconfig

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FieldError is what is wrong with a field.
type FieldError struct {
	Field string // as mounts[0]
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

var plainKey = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

// element is the path of a field of a map.
func element(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

// locate puts the lines of the fields before joined FieldErrors, and these in order.
func locate(err error, data []byte) error {
	var root yaml.Node
	if err == nil || yaml.Unmarshal(data, &root) != nil || len(root.Content) == 0 {
		return err
	}
	lines := map[string]int{}
	mark(lines, "", root.Content[0])
	type located struct {
		line int
		err  error
	}
	var all []located
	for _, e := range flatten(err) {
		line := 0
		if field, ok := errors.AsType[*FieldError](e); ok {
			line = lines[field.Field]
		}
		if line > 0 { // else it is missing
			e = fmt.Errorf("line %d: %w", line, e)
		}
		all = append(all, located{line, e})
	}
	slices.SortStableFunc(all, func(a, b located) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(all))
	for i, l := range all {
		errs[i] = l.err
	}
	return errors.Join(errs...)
}

// mark notes the lines of the fields below a node.
func mark(lines map[string]int, path string, node *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := element(path, node.Content[i].Value)
			lines[key] = node.Content[i].Line
			mark(lines, key, node.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			key := fmt.Sprintf("%s[%d]", path, i)
			lines[key] = item.Line
			mark(lines, key, item)
		}
	}
}

// flatten takes joined errors apart.
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

// explain takes the names of Go types out of what the YAML decoder says of fields.
func explain(err error) error {
	typeError, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	var errs []string
	for _, text := range typeError.Errors {
		errs = append(errs, goType.ReplaceAllString(text, ""))
	}
	return errors.New(strings.Join(errs, "\n"))
}
