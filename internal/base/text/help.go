package text

import (
	"regexp"
	"slices"
	"strings"
)

// HelpWidth is the width of help texts.
const HelpWidth = 80

// tableLine is a line of a help text with a flag, a command or a code, and its description.
var tableLine = regexp.MustCompile(`^( +(?:-\w, +)?\S+(?: \S+)? {2,})(\S.*)$`)

// Help wraps a help text at HelpWidth: paragraphs, and tables of flags, commands and codes. A description goes on below
// its beginning. Examples stay as they are.
func Help(help string) string {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.TrimSuffix(help, "\n"), "\n\n") {
		for _, line := range paragraphs(block) {
			if parts := tableLine.FindStringSubmatch(line); len(line) > HelpWidth && parts != nil {
				line = wrap(parts[1], parts[2])
			} else if len(line) > HelpWidth && !strings.HasPrefix(line, " ") {
				line = wrap("", line)
			}
			b.WriteString(line + "\n")
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// paragraphs returns the lines of a block of lines. If a prose line is too long, all prose lines are joined.
func paragraphs(block string) []string {
	lines := strings.Split(block, "\n")
	prose := func(line string) bool { return line != "" && !strings.HasPrefix(line, " ") }
	if !slices.ContainsFunc(lines, func(line string) bool { return prose(line) && len(line) > HelpWidth }) {
		return lines
	}
	var out []string
	for i, line := range lines {
		if i > 0 && prose(line) && prose(lines[i-1]) {
			out[len(out)-1] += " " + line
		} else {
			out = append(out, line)
		}
	}
	return out
}

// wrap breaks a description between words. A word that is too long has a line of its own.
func wrap(front, description string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(description) {
		switch {
		case i == 0:
			b.WriteString(front)
			column = len(front)
		case column+1+len(word) > HelpWidth:
			b.WriteString("\n" + strings.Repeat(" ", len(front)))
			column = len(front)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// WithHint adds to a usage error where the help of a command is.
func WithHint(said, command string) string {
	if strings.Contains(said, " --help") {
		return said
	}
	separator := "; "
	if strings.Contains(said, "\n") {
		separator = "\n"
	}
	return said + separator + "see " + command + " --help"
}
