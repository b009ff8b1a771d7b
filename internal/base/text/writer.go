package text

import (
	"io"
	"unicode/utf8"
)

// Writer returns a writer that escapes text for a terminal. It escapes like Terminal, but keeps line breaks and tabs,
// which structure a text. It must be the last writer before standard output and standard error, so that it escapes
// every message.
func Writer(w io.Writer) io.Writer { return &writer{w: w} }

// Unwrap returns the writer below a Writer, for output that has its own escapes or needs none.
func Unwrap(w io.Writer) io.Writer {
	if own, ok := w.(*writer); ok {
		return own.w
	}
	return w
}

type writer struct {
	w    io.Writer
	rest []byte // the beginning of a character, until Write gets the other bytes
}

// Write implements io.Writer.
func (q *writer) Write(p []byte) (int, error) {
	text := string(append(q.rest, p...))
	end := complete(text)
	q.rest = []byte(text[end:])
	if _, err := io.WriteString(q.w, escaped(text[:end], "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// complete returns the end of the last character that is complete, or that can never become complete.
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
