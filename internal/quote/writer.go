package quote

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Writer returns a writer for people: it escapes as Terminal does, but for line breaks and tabs, which structure a
// text. It is the last thing before standard output and standard error, so that no message can be forgotten.
func Writer(w io.Writer) io.Writer { return &writer{w: w} }

// Unwrap returns the writer that a Writer writes to, for what brings its own escapes or none is wanted.
func Unwrap(w io.Writer) io.Writer {
	if own, ok := w.(*writer); ok {
		return own.w
	}
	return w
}

type writer struct {
	w    io.Writer
	rest []byte // the beginning of a character, whose end is to come
}

// Write implements io.Writer.
func (q *writer) Write(p []byte) (int, error) {
	text := string(append(q.rest, p...))
	end := complete(text)
	q.rest = []byte(text[end:])
	text = text[:end]
	if !clean(text, "\n\t") {
		var b strings.Builder
		for i := 0; i < len(text); {
			r, size := utf8.DecodeRuneInString(text[i:])
			if r == '\n' || r == '\t' {
				b.WriteRune(r)
			} else {
				escape(&b, r, text[i:i+size])
			}
			i += size
		}
		text = b.String()
	}
	if _, err := io.WriteString(q.w, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// complete returns where the last character ends that is whole, or never will be.
func complete(text string) int {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}
