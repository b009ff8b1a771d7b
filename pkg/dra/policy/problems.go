package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/yamlread"
)

// problems collects the errors of a file.
type problems struct {
	positions *yamlread.Positions
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
