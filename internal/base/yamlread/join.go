package yamlread

import (
	"errors"
	"fmt"
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
