package runtimes

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// VersionTimeout bounds a program that only prints its version.
const VersionTimeout = 5 * time.Second

// version is major, minor and patch of a release.
type version [3]int

// development is the version of a main branch: newer than every release.
var development = version{math.MaxInt}

const developmentName = "main"

func v(parts ...int) (out version) {
	copy(out[:], parts)
	return out
}

// parseVersion reads "4.3.1", "v28", "1.7.12-rc.1", "1.6.20~ds1" or "main". Parts that
// are left out are zero; what follows the numbers is left out of account.
func parseVersion(s string) (version, error) {
	if s == developmentName {
		return development, nil
	}
	s = strings.TrimPrefix(s, "v")
	if end := strings.IndexAny(s, "-+~ "); end >= 0 {
		s = s[:end]
	}
	var out version
	parts := strings.Split(s, ".")
	for i, part := range parts[:min(len(parts), len(out))] {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return out, errors.New("a version is numbers with dots, such as 4.3.1, or main")
		}
		out[i] = int(n)
	}
	return out, nil
}

// compare orders versions.
func (a version) compare(b version) int {
	return slices.Compare(a[:], b[:])
}

// String leaves out a patch of zero: "4.3", "1.7.12", "main".
func (a version) String() string {
	if a == development {
		return developmentName
	}
	s := strconv.Itoa(a[0]) + "." + strconv.Itoa(a[1])
	if a[2] != 0 {
		s += "." + strconv.Itoa(a[2])
	}
	return s
}
