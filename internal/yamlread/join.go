package yamlread

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

const (
	// maxErrors are those that are reported of one file.
	maxErrors = 10
	// maxText is the length of one, in bytes.
	maxText = 1000
)

// Join joins the first ten errors, and says how many more there are.
func Join(errs []error) error {
	return join(len(errs), func(i int) error { return errs[i] })
}

// JoinTexts does the same with what the decoder says, and words no more of it than it reports.
func JoinTexts(texts []string, word func(string) error) error {
	return join(len(texts), func(i int) error { return word(texts[i]) })
}

func join(n int, at func(int) error) error {
	var errs []error
	for i := range min(n, maxErrors) {
		errs = append(errs, at(i))
	}
	switch more := n - maxErrors; {
	case more == 1:
		errs = append(errs, errors.New("and 1 more error"))
	case more > 1:
		errs = append(errs, fmt.Errorf("and %d more errors", more))
	}
	return errors.Join(errs...)
}

// Shorten cuts an error that is longer than anybody reads, as one that repeats a value of the file may be.
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
