package args

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/bytesize"
)

// Size is a limit in bytes, as in prlimit(2).
type Size uint64

// Unlimited is RLIM_INFINITY: no limit. It is higher than every other Size.
const Unlimited Size = math.MaxUint64

// ParseSize parses "unlimited", or a size above 0 of package bytesize. Zero is an error: the hook never lowers a limit,
// so zero must be a mistake.
func ParseSize(s string) (Size, error) {
	if s == "unlimited" {
		return Unlimited, nil
	}
	bytes, err := bytesize.Parse(s)
	switch {
	case errors.Is(err, bytesize.ErrTooLarge):
		return 0, badSize(s, err.Error()+`; did you mean "unlimited"?`)
	case errors.Is(err, bytesize.ErrNoSize):
		return 0, badSize(s, `is neither "unlimited" nor a size in bytes, such as 8388608, 64Mi, 4g or 4GB`)
	case err != nil:
		return 0, badSize(s, err.Error())
	case bytes == 0:
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
