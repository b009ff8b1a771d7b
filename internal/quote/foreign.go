package quote

import (
	"fmt"
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
	cut := max(len(text)-MaxForeign, 0)
	if cut > 0 {
		end := MaxForeign
		for end > MaxForeign-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		cut, text = len(text)-end, text[:end]
	}
	var lines []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(lineBreaks, r) }) {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	text = `"` + Terminal(strings.ReplaceAll(strings.Join(lines, " | "), `"`, "'")) + `"`
	switch cut {
	case 0:
		return text
	case 1:
		return text + " (1 byte cut)"
	}
	return text + fmt.Sprintf(" (%d bytes cut)", cut)
}
