package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/text"
)

// colours are ANSI escape sequences (ECMA-48 SGR).
var colours = map[Severity]string{
	Error:   "\x1b[1;31m",
	Warning: "\x1b[1;33m",
	Info:    "\x1b[36m",
	OK:      "\x1b[32m",

	Acknowledged: "\x1b[36m",
}

const colourOff = "\x1b[0m"

// headings are the headings of a report.
var headings = map[Severity]string{Error: "ERRORS", Warning: "WARNINGS", Info: "NOTES", OK: "OK",
	Acknowledged: "ACKNOWLEDGED"}

// textWidth is the length at which lines are wrapped. Commands are never wrapped.
const textWidth = 100

// maxCommand is the length of a command that people read. One with the names of a thousand devices is for programs.
const maxCommand = 500

// WriteText writes the report for people. The summary comes last, because a terminal shows the end of a text.
func (r *Report) WriteText(w io.Writer, colour bool) error {
	t := writer{colour: colour}
	for _, s := range severities {
		findings := slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Severity != s })
		if len(findings) == 0 {
			continue
		}
		t.painted(s, headings[s])
		for _, f := range findings {
			t.finding(f)
		}
		t.line("")
	}
	if len(r.Unseen) > 0 {
		t.line("NOT SEEN")
		for _, u := range r.Unseen {
			t.wrap("  ", "    ", u.What+": "+u.Reason)
		}
		t.line("")
	}
	t.painted(r.Worst(), r.Summary.String())
	_, err := io.WriteString(w, t.b.String())
	return err
}

// writer builds the text of a report.
type writer struct {
	b      strings.Builder
	colour bool
}

func (t *writer) finding(f Finding) {
	t.line(fmt.Sprintf("  %-20s %s", f.ID, f.Title))
	if len(f.Subjects) > 0 {
		t.wrap("    on:  ", "         ", text.Some(f.Subjects, ", "))
	}
	if f.Reason != "" {
		t.wrap("    why: ", "         ", f.Reason)
	}
	t.commands("    see: ", "look", f.ID, f.Look)
	t.commands("    fix: ", "fix", f.ID, f.Fix)
}

// commands writes the commands of a field.
func (t *writer) commands(label, field string, id ID, commands string) {
	for command := range strings.Lines(commands) {
		if len(command) > maxCommand {
			command = fmt.Sprintf("(%d characters) cdi-gen doctor -o json | jq -r '.findings[] | select(.id == %q) | .%s'",
				len(command), id, field)
		}
		t.line(label + strings.TrimSpace(command))
		label = "         "
	}
}

// painted writes a line in a colour. The line must not contain untrusted names.
func (t *writer) painted(s Severity, words string) {
	if t.colour {
		words = colours[s] + words + colourOff
	}
	t.b.WriteString(words + "\n")
}

// line writes a line, and escapes it, because it may contain untrusted names.
func (t *writer) line(s string) { t.b.WriteString(text.Terminal(s) + "\n") }

// wrap writes words in lines. The first line begins with a label, the others with an indent.
func (t *writer) wrap(label, indent, words string) {
	line := label
	for i, word := range strings.Fields(words) {
		if i > 0 && len(line)+1+len(word) > textWidth {
			t.line(line)
			line = indent
		} else if i > 0 {
			line += " "
		}
		line += word
	}
	t.line(line)
}
