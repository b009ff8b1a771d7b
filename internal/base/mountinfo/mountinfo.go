// Package mountinfo parses the mounts of a process (proc_pid_mountinfo(5)). The hook links it, so it imports little.
package mountinfo

import (
	"iter"
	"strings"
)

// Mount is one line of a mountinfo file.
type Mount struct {
	ID      string
	Device  string // of the file system, 8:1
	Root    string // which part of the file system is mounted: a path in it
	Point   string // the mount point, an absolute path
	Options string // of the mount, with commas between them

	Kind              string // of the file system, ext4
	FileSystemOptions string // with commas between them
}

// Parse returns the mounts of a mountinfo file, in the order of the kernel. It skips lines that it cannot read.
func Parse(text string) iter.Seq[Mount] {
	return func(yield func(Mount) bool) {
		for line := range strings.SplitSeq(text, "\n") {
			if m, ok := parse(line); ok && !yield(m) {
				return
			}
		}
	}
}

func parse(line string) (m Mount, ok bool) {
	front, back, _ := strings.Cut(line, " - ")
	fields := strings.SplitN(front, " ", 7)
	if len(fields) < 6 || !strings.HasPrefix(fields[4], "/") {
		return m, false
	}
	kind, rest, _ := strings.Cut(back, " ")
	_, options, _ := strings.Cut(rest, " ")
	return Mount{ID: fields[0], Device: fields[2], Root: unescape(fields[3]), Point: unescape(fields[4]),
		Options: fields[5], Kind: kind, FileSystemOptions: unescape(options)}, true
}

// unescape decodes the characters that the kernel escapes in paths.
func unescape(s string) string {
	if strings.Contains(s, `\`) {
		return escapes.Replace(s)
	}
	return s
}

var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
