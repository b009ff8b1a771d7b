package userspace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// glibcVersion is the number of a symbol version such as GLIBC_2.34. Some versions of glibc have no number, such as
// GLIBC_PRIVATE and GLIBC_ABI_DT_RELR.
type glibcVersion [2]int

func parseGLIBC(version string) (glibcVersion, bool) {
	number, ok := strings.CutPrefix(version, "GLIBC_")
	if !ok {
		return glibcVersion{}, false
	}
	major, rest, _ := strings.Cut(number, ".")
	minor, _, _ := strings.Cut(rest, ".") // the third number: 2.2.5
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return glibcVersion{a, b}, err1 == nil && err2 == nil
}

func (v glibcVersion) less(w glibcVersion) bool { return slices.Compare(v[:], w[:]) < 0 }

func (v glibcVersion) String() string {
	if v == (glibcVersion{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", v[0], v[1])
}

// newestGLIBC returns the highest of the versions.
func newestGLIBC(versions []string) glibcVersion {
	var newest glibcVersion
	for _, s := range versions {
		if v, ok := parseGLIBC(s); ok && newest.less(v) {
			newest = v
		}
	}
	return newest
}
