// Package exitcode says what the programs end with: once, for their help and for the
// reference page of all of them. It has nothing of fmt, since the hook has it.
package exitcode

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// List are the codes of a program, or of one of its commands, with what they mean.
type List map[int]string

// Help is the end of a program's help.
func (l List) Help() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, code := range slices.Sorted(maps.Keys(l)) {
		number := strconv.Itoa(code)
		b.WriteString(strings.Repeat(" ", max(0, 3-len(number))) + number + "  " + l[code] + "\n")
	}
	return b.String()
}

// Table is the part of the reference page for a command, in Markdown.
func (l List) Table(command string) string {
	var b strings.Builder
	b.WriteString("\n| `" + command + "` | meaning |\n|---|---|\n")
	for _, code := range slices.Sorted(maps.Keys(l)) {
		b.WriteString("| " + strconv.Itoa(code) + " | " + l[code] + " |\n")
	}
	return b.String()
}
