package text

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxForeign is how many bytes of somebody else's text [Foreign] shows.
const MaxForeign = 1 << 10

// lineBreaks are what programs take for the end of a line (Unicode 5.8, newline guidelines).
const lineBreaks = "\n\r\v\f\u0085\u2028\u2029"

// Foreign returns somebody else's text as a part of one of our sentences: on one line, in quotes, escaped as by
// Terminal, and bounded. The message of an event, condition, container, webhook, registry or plugin goes through it, so
// that no reader takes it for our words: it begins no line, and ends where its quotes end. Lines are separated by " | ",
// quotes inside become single ones. Text that Foreign has cut is followed by the number of bytes that it left out.
func Foreign(text string) string {
	rest := ""
	if len(text) > MaxForeign {
		kept := cut(text, MaxForeign)
		text, rest = kept, left(len(text)-len(kept))
	}
	var lines []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(lineBreaks, r) }) {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return `"` + Terminal(strings.ReplaceAll(strings.Join(lines, " | "), `"`, "'")) + `"` + rest
}

// Fprintf writes like fmt.Fprintf. It escapes each text among the arguments as Terminal does, and bounds it. So only the
// format breaks lines, and no name or message begins one.
func Fprintf(w io.Writer, format string, args ...any) {
	escaped := slices.Clone(args)
	for i, arg := range args {
		switch v := arg.(type) {
		case error:
			escaped[i] = argument(v.Error())
		case fmt.Stringer:
			escaped[i] = argument(v.String())
		default:
			if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
				escaped[i] = argument(v.String())
			}
		}
	}
	fmt.Fprintf(w, format, escaped...) // the writer keeps its error
}

func argument(text string) string { return Bound(Terminal(text), maxMessage) }

// Bound cuts a text at a number of bytes, and says how much it cut.
func Bound(text string, most int) string {
	if len(text) <= most {
		return text
	}
	kept := cut(text, most)
	return kept + left(len(text)-len(kept))
}

// cut returns the first bytes of a text, whole characters.
func cut(text string, most int) string {
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

func left(bytes int) string {
	if bytes == 1 {
		return " (1 byte cut)"
	}
	return fmt.Sprintf(" (%d bytes cut)", bytes)
}

// maxMessage is how many bytes of a message Message and Fprintf show. The API server's longest messages list every fault
// of an object.
const maxMessage = 16 << 10

// Message returns the text of an error for standard error. An error may repeat what others wrote, and several errors
// have several lines, so each line after the first has a bar before it.
func Message(text string) string {
	return strings.ReplaceAll(strings.TrimRight(Bound(text, maxMessage), "\n"), "\n", "\n  | ")
}

// Error returns an error whose text goes through Foreign, for an error that repeats what others wrote: an expression, a
// file, an answer. errors.Is and errors.As find what they found.
func Error(err error) error { return foreignError{err} }

type foreignError struct{ error }

func (e foreignError) Error() string { return Foreign(e.error.Error()) }

func (e foreignError) Unwrap() error { return e.error }
