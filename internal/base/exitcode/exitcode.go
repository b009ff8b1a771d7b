// Package exitcode describes the exit codes of the programs, for their help and for the reference page. The hook links
// it, so it imports little.
package exitcode

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// List has the exit codes of a program, or of one of its commands, with their meanings.
type List map[int]string

// Help is the last section of a program's help.
func (l List) Help() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, code := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "%3d  %s\n", code, l[code])
	}
	return b.String()
}
