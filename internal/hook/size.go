package hook

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Size is a limit in bytes, as prlimit(2) has it.
type Size uint64

// Unlimited is RLIM_INFINITY: no limit, and more than every other Size.
const Unlimited Size = math.MaxUint64

// suffixes are those of Kubernetes quantities, longest first. Upper-case K is
// accepted beside Kubernetes' k, because people write it.
var suffixes = [...]struct {
	name  string
	bytes uint64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
}

// ParseSize reads "unlimited" or a whole number of bytes with an optional
// suffix (Ki Mi Gi Ti, or k K M G T for powers of 1000). Zero is refused: the
// hook never lowers a limit, so zero can only be a misunderstanding.
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

func badSize(s, why string) error {
	return errors.New("parse size " + strconv.Quote(s) + ": it " + why)
}

// String is for people: "unlimited", "8 MiB", or "1000 bytes" where no binary
// unit divides the value.
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

// MarshalText is for programs: "unlimited" or the bytes in decimal. Text rather
// than a JSON number, because 2^64-1 is not exact in programs that read numbers
// as float64 (jq is one).
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
