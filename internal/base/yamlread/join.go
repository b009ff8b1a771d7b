package yamlread

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

const (
	// maxErrors is the maximum number of errors to report for one file.
	maxErrors = 10
	// maxText is the maximum length of one error, in bytes.
	maxText = 1000
)

// Join joins the first ten errors, and reports how many more there are.
func Join(errs []error) error {
	return JoinTexts(errs, func(err error) error { return err })
}

// JoinTexts does the same with messages of the decoder. It calls word only for the messages that it reports.
func JoinTexts[T any](texts []T, word func(T) error) error {
	var errs []error
	for _, text := range texts[:min(len(texts), maxErrors)] {
		errs = append(errs, word(text))
	}
	switch more := len(texts) - maxErrors; {
	case more == 1:
		errs = append(errs, errors.New("and 1 more error"))
	case more > 1:
		errs = append(errs, fmt.Errorf("and %d more errors", more))
	}
	return errors.Join(errs...)
}

// Shorten truncates an error that is too long to read, for example one that repeats a value of the file.
func Shorten(err error) error {
	text := err.Error()
	if len(text) <= maxText {
		return err
	}
	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return errors.New(text[:end] + "...")
}

// Problems collects the errors of the fields of a file.
type Problems struct {
	Positions *Positions
	found     []problem
}

type problem struct {
	line int
	err  error
}

// Add records an error of a field, by its path. It ignores nil.
func (p *Problems) Add(path string, err error) {
	if err == nil {
		return
	}
	err = fmt.Errorf("%s: %w", path, err)
	line := p.Positions.Line(path)
	if line > 0 {
		err = fmt.Errorf("line %d: %w", line, err)
	}
	p.found = append(p.found, problem{line, Shorten(err)})
}

// Join returns all errors in order of lines.
func (p *Problems) Join() error {
	slices.SortFunc(p.found, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.err.Error(), b.err.Error()))
	})
	var errs []error
	for _, found := range p.found {
		errs = append(errs, found.err)
	}
	return Join(errs)
}
