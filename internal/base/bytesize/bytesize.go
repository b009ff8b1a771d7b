// Package bytesize is the one parser of sizes in bytes that people write: on the command line of the hook, in the
// configuration files of hosts and drivers, and in claims and classes.
//
// A suffix of Kubernetes quantities has its meaning there: Ki to Ei are powers of 1024, and k M G T P E, in this
// case, powers of 1000. Any other one is read as podman and docker do: k m g t p are powers of 1024 in any case, and
// i, b and ib may follow. So 4g, 4gb, 4GB, 4GiB and 4Gi are equal, and 4G is less. The suffixes of Kubernetes for
// parts of a byte (m, u, n) make no sense in a size: 64m is 64 MiB.
//
// It links only the standard library: the hook is part of every container start.
package bytesize

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"
)

// The errors of Parse go on after "it".
var (
	ErrNoSize   = errors.New("is no size in bytes")
	ErrNotWhole = errors.New("is no whole number of bytes")
	ErrTooLarge = errors.New("is more than 64 bits hold")
)

// maxText bounds the text of a size.
const maxText = 64

// Parse returns the bytes of a size: a number with an optional fraction or exponent, and an optional suffix.
func Parse(s string) (uint64, error) {
	n, ok := parseNumber(s)
	unit, known := unitOf(n.suffix)
	switch {
	case !ok || !known || len(s) > maxText:
		return 0, ErrNoSize
	case n.digits == "":
		return 0, nil
	}
	return n.times(unit)
}

// number is digits * 10^exponent. The digits neither begin nor end with a zero; those of zero are "".
type number struct {
	digits   string
	exponent int
	suffix   string
}

// parseNumber parses a decimal number. What follows it is the suffix, unless it is an exponent.
func parseNumber(s string) (n number, ok bool) {
	s = strings.TrimPrefix(s, "+")
	n.suffix = strings.TrimLeft(s, "0123456789.")
	whole, fraction, _ := strings.Cut(s[:len(s)-len(n.suffix)], ".")
	if whole+fraction == "" || strings.Contains(fraction, ".") {
		return n, false
	}
	if strings.HasPrefix(n.suffix, "e") || strings.HasPrefix(n.suffix, "E") {
		if exponent, err := strconv.ParseInt(n.suffix[1:], 10, 16); err == nil {
			n.exponent, n.suffix = int(exponent), ""
		}
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	n.digits = strings.TrimRight(digits, "0")
	n.exponent += len(digits) - len(n.digits) - len(fraction)
	return n, true
}

// times multiplies a number that is not zero. Each loop ends within 40 steps, whatever the exponent: the value gets too
// large, or has a rest.
func (n number) times(unit uint64) (uint64, error) {
	value, err := strconv.ParseUint(n.digits, 10, 64)
	var hi, rest uint64
	for ; err == nil && hi == 0 && n.exponent > 0; n.exponent-- {
		hi, value = bits.Mul64(value, 10)
	}
	if err != nil || hi != 0 {
		return 0, ErrTooLarge
	}
	hi, value = bits.Mul64(value, unit)
	for ; n.exponent < 0; n.exponent++ {
		next := hi / 10
		if value, rest = bits.Div64(hi%10, value, 10); rest != 0 {
			return 0, ErrNotWhole
		}
		hi = next
	}
	if hi != 0 {
		return 0, ErrTooLarge
	}
	return value, nil
}

// quantityUnits are the suffixes of Kubernetes that podman and docker do not have, or read otherwise.
var quantityUnits = [...]struct {
	suffix string
	bytes  uint64
}{{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}, {"Ei", 1 << 60}}

// unitOf returns the bytes that a suffix stands for.
func unitOf(suffix string) (uint64, bool) {
	for _, unit := range quantityUnits {
		if suffix == unit.suffix {
			return unit.bytes, true
		}
	}
	lower := strings.ToLower(suffix)
	letter := strings.TrimSuffix(lower, "b")
	switch {
	case len(lower) != len(suffix): // the Kelvin sign is a k in lower case
		return 0, false
	case letter == "":
		return 1, true
	}
	if len(letter) == 2 {
		letter = strings.TrimSuffix(letter, "i")
	}
	power := strings.Index("kmgtp", letter) + 1
	return 1 << (10 * power), len(letter) == 1 && power > 0
}
