// Package mountinfo parses the mounts of a process (proc_pid_mountinfo(5)). Only the hook has a parser of its own,
// because it links as few packages as possible.
package mountinfo

import (
	"iter"
	"strings"
)

// Mount is one line of a mountinfo file.
type Mount struct {
	ID string
	// Point is the mount point.
	Point string
	// Options are those of the mount.
	Options []string
}

// Parse returns the mounts of a mountinfo file, in the order of the kernel. It skips lines that it cannot read.
func Parse(text string) iter.Seq[Mount] {
	return func(yield func(Mount) bool) {
		for line := range strings.Lines(text) {
			if m, ok := parse(line); ok && !yield(m) {
				return
			}
		}
	}
}

func parse(line string) (m Mount, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 {
		return m, false
	}
	return Mount{fields[0], unescape.Replace(fields[4]), strings.Split(fields[5], ",")}, true
}

// unescape decodes the characters that the kernel escapes in paths.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
