// Package exitcode describes the exit codes of the programs, for their help and for the reference page. The hook links
// it, so it imports little.
package exitcode

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The exit codes that all programs share. The help of a command names its others.
const (
	OK     = 0
	Failed = 1
	Usage  = 2
)

// BadUsage is the meaning of Usage.
const BadUsage = "bad flags or arguments"

// List has the exit codes of a program, or of one of its commands, with their meanings.
type List map[int]string

// Help is the last section of a program's help, of at most 80 columns.
func (l List) Help() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, code := range slices.Sorted(maps.Keys(l)) {
		line := fmt.Sprintf("%3d ", code)
		for _, word := range strings.Fields(l[code]) {
			if len(line)+1+len(word) > 80 {
				b.WriteString(line + "\n")
				line = "    "
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
