package text

import (
	"fmt"
	"io"
	"strings"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/finding"
)

// Summary counts findings by severity.
type Summary map[finding.Severity]int

// Summarize counts findings. Each severity has a number.
func Summarize(list []finding.Finding) Summary {
	s := Summary{}
	for _, severity := range finding.Severities {
		s[severity] = 0
	}
	for _, f := range list {
		s[f.Severity]++
	}
	return s
}

// Worst returns the severity of the worst finding, OK if there is no finding.
func (s Summary) Worst() finding.Severity {
	for _, severity := range finding.Severities {
		if s[severity] > 0 {
			return severity
		}
	}
	return finding.OK
}

// String is the summary in one line.
func (s Summary) String() string {
	line := fmt.Sprintf("%s, %s, %s, %d ok", Count(s[finding.Error], "error"), Count(s[finding.Warning], "warning"),
		Count(s[finding.Info], "note"), s[finding.OK])
	if n := s[finding.Acknowledged]; n > 0 {
		line += fmt.Sprintf(", %d acknowledged", n)
	}
	if n := s[finding.NotSeen]; n > 0 {
		line += fmt.Sprintf(", %d not seen", n)
	}
	return line
}

// sections are the headings of findings, with colours: ANSI escape sequences (ECMA-48 SGR).
var sections = map[finding.Severity]struct{ heading, colour string }{
	finding.Error:        {"ERRORS", "\x1b[1;31m"},
	finding.Warning:      {"WARNINGS", "\x1b[1;33m"},
	finding.Acknowledged: {"ACKNOWLEDGED", "\x1b[36m"},
	finding.Info:         {"NOTES", "\x1b[36m"},
	finding.OK:           {"OK", "\x1b[32m"},
	finding.NotSeen:      {"NOT SEEN", "\x1b[36m"},
}

// findingWidth is the length at which lines of findings are wrapped, with an indent. Commands are never wrapped.
const findingWidth, findingIndent = 100, "         "

// maxCommand is the length of a command that people read. One with the names of a thousand devices is for programs.
const maxCommand = 500

// WriteFindings writes findings, which are sorted by severity, for people. It escapes names. The summary comes last,
// because a terminal shows the end of a text.
func WriteFindings(w io.Writer, list []finding.Finding, colour bool) error {
	t := findingWriter{colour: colour}
	for i, f := range list {
		if i == 0 || list[i-1].Severity != f.Severity {
			t.painted(f.Severity, sections[f.Severity].heading)
		}
		t.finding(f)
		if i == len(list)-1 || list[i+1].Severity != f.Severity {
			t.line("")
		}
	}
	s := Summarize(list)
	worst := s.Worst()
	if worst == finding.OK && s[finding.NotSeen] > 0 {
		worst = finding.NotSeen
	}
	t.painted(worst, s.String())
	_, err := io.WriteString(w, t.b.String())
	return err
}

// findingWriter builds the text of findings.
type findingWriter struct {
	b      strings.Builder
	colour bool
}

func (t *findingWriter) finding(f finding.Finding) {
	if f.Severity == finding.NotSeen { // its subject is in its message
		t.wrap("  ", "    ", f.Message)
		return
	}
	what, why, _ := strings.Cut(f.Message, "\n")
	t.line(fmt.Sprintf("  %-20s %s", f.ID, what))
	if len(f.Subjects) > 0 {
		t.wrap("    on:  ", findingIndent, Some(f.Subjects, ", "))
	}
	if why != "" {
		t.wrap("    why: ", findingIndent, why)
	}
	var looks, fixes []string
	for command := range strings.Lines(f.Remedy) {
		if look, ok := strings.CutPrefix(command, "# "); ok {
			looks = append(looks, look)
		} else {
			fixes = append(fixes, command)
		}
	}
	t.commands("    see: ", f.ID, looks)
	t.commands("    fix: ", f.ID, fixes)
}

// commands writes the commands of a finding, one per line.
func (t *findingWriter) commands(label, id string, commands []string) {
	for _, command := range commands {
		if len(command) > maxCommand {
			command = fmt.Sprintf("(%d characters; remedy of %s in -o json)", len(command), id)
		}
		t.line(label + strings.TrimSpace(command))
		label = findingIndent
	}
}

// painted writes a line in the colour of a severity. The line must not contain untrusted names.
func (t *findingWriter) painted(s finding.Severity, words string) {
	if t.colour {
		words = sections[s].colour + words + "\x1b[0m"
	}
	t.b.WriteString(words + "\n")
}

// line writes a line, and escapes it, because it may contain untrusted names.
func (t *findingWriter) line(s string) { t.b.WriteString(Terminal(s) + "\n") }

// wrap writes words in lines. The first line begins with a label, the others with an indent.
func (t *findingWriter) wrap(label, indent, words string) {
	line := label
	for i, word := range strings.Fields(words) {
		if i > 0 && len(line)+1+len(word) > findingWidth {
			t.line(line)
			line = indent
		} else if i > 0 {
			line += " "
		}
		line += word
	}
	t.line(line)
}
