package policy

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdma-dev/dra-driver-rdma/internal/yamlpath"
	"github.com/rdma-dev/dra-driver-rdma/internal/yamlread"
)

// problems collects the errors of a file.
type problems struct {
	positions *yamlpath.Positions
	found     []problem
}

type problem struct {
	line int
	err  error
}

// add records an error of a field.
func (p *problems) add(path, format string, args ...any) {
	line := p.positions.Line(path)
	err := fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...))
	if line > 0 {
		err = fmt.Errorf("line %d: %w", line, err)
	}
	p.found = append(p.found, problem{line, yamlread.Shorten(err)})
}

// join returns all errors in order of lines.
func (p *problems) join() error {
	slices.SortFunc(p.found, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.err.Error(), b.err.Error()))
	})
	var errs []error
	for _, found := range p.found {
		errs = append(errs, found.err)
	}
	return yamlread.Join(errs)
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (.*) not found in type \S+$`)
	wrongType    = regexp.MustCompile("^line (\\d+): cannot unmarshal !!\\w+(?: `(?s:(.*))`)? into (\\S+)$")
)

// explain rewords the errors of the YAML decoder without Go types. It does not change
// syntax errors.
func explain(err error, p *yamlpath.Positions) error {
	typeError, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	return yamlread.JoinTexts(typeError.Errors, func(text string) error {
		if m := unknownField.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("line %s: %s: unknown field", m[1], p.Field(number(m[1]), m[2]))
		} else if m := wrongType.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("line %s: %s: want %s", m[1], p.Text(number(m[1]), m[2]), wanted(m[3]))
			if m[2] != "" {
				text += fmt.Sprintf(", not %q", m[2])
			}
		}
		return errors.New(text)
	})
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // the pattern matches only digits
	return n
}

// wanted describes a Go type for users.
func wanted(goType string) string {
	switch {
	case goType == "int64":
		return "a whole number"
	case goType == "bool":
		return "true or false"
	case goType == "quantity":
		return "a number, as 4096, or one with a suffix, as 400G"
	case goType == "duration":
		return "a time, as 500ms or 30s"
	case goType == "string", goType == "resources.View":
		return "a text"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	}
	return "fields"
}
