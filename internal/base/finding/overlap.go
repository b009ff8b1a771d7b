package finding

import (
	"path"
	"slices"
	"strings"
)

// needs reports whether a look of the kind is among those that failed.
func (k *Kind) needs(missed []string) bool {
	return slices.ContainsFunc(k.Looks, func(look string) bool {
		return slices.ContainsFunc(missed, func(subject string) bool { return Overlap(look, subject) })
	})
}

// Overlap reports whether a path is what a look reads, above it or below it.
func Overlap(look, subject string) bool {
	names := strings.Split(subject, "/")
	for i, pattern := range strings.Split(look, "/") {
		if i == len(names) {
			break
		}
		if ok, err := path.Match(pattern, names[i]); !ok || err != nil {
			return false
		}
	}
	return true
}
