package args

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Size is a limit in bytes, as in prlimit(2).
type Size uint64

// Unlimited is RLIM_INFINITY: no limit. It is higher than every other Size.
const Unlimited Size = math.MaxUint64

// suffixes are those of Kubernetes quantities, the longest first, and an upper-case K, because people write it.
var suffixes = [...]struct {
	name  string
	bytes uint64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
}

// ParseSize parses "unlimited" or a whole number of bytes with an optional suffix (Ki Mi Gi Ti, or k K M G T for powers
// of 1000). Zero is an error: the hook never lowers a limit, so zero must be a mistake.
func ParseSize(s string) (Size, error) {
	if s == "unlimited" {
		return Unlimited, nil
	}
	digits, unit := s, uint64(1)
	for _, suffix := range suffixes {
		if d, ok := strings.CutSuffix(s, suffix.name); ok {
			digits, unit = d, suffix.bytes
			break
		}
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, badSize(s, `is neither "unlimited" nor a whole number of bytes, such as 8388608, 64Mi or 2G`)
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	hi, bytes := bits.Mul64(n, unit)
	if err != nil || hi != 0 {
		return 0, badSize(s, `is more than 64 bits hold; did you mean "unlimited"?`)
	}
	if bytes == 0 {
		return 0, badSize(s, `would raise nothing; did you mean "unlimited"?`)
	}
	return Size(bytes), nil
}

func badSize(s, fault string) error {
	return fmt.Errorf("parse size %q: it %s", s, fault)
}

// String is for people: "unlimited", "8 MiB", or "1000 bytes" if no binary unit divides the value.
func (s Size) String() string {
	if s == Unlimited {
		return "unlimited"
	}
	for i, unit := range [...]string{" GiB", " MiB", " KiB"} {
		shift := 30 - 10*i
		if n := s >> shift; n > 0 && n<<shift == s {
			return strconv.FormatUint(uint64(n), 10) + unit
		}
	}
	return strconv.FormatUint(uint64(s), 10) + " bytes"
}

// MarshalText is for programs: "unlimited" or the bytes in decimal. It must be a string, because programs that read
// JSON numbers as float64, such as jq, cannot represent 2^64-1.
func (s Size) MarshalText() ([]byte, error) {
	if s == Unlimited {
		return []byte("unlimited"), nil
	}
	return strconv.AppendUint(nil, uint64(s), 10), nil
}

// UnmarshalText reads what MarshalText writes.
func (s *Size) UnmarshalText(text []byte) error {
	if string(text) == "unlimited" {
		*s = Unlimited
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return badSize(string(text), "is neither unlimited nor a number of bytes")
	}
	*s = Size(n)
	return nil
}
