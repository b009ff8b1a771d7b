package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/rdma-dev/dra-driver-rdma/internal/base/bytesize"
)

// Memlock is a locked memory limit: "unlimited", "inherit" or a size in bytes, as package bytesize
// reads it: a Kubernetes quantity such as 4Gi, or 4g as podman and docker take it. In JSON it is a
// string, or a number of bytes.
type Memlock string

// The limits that are no sizes.
const (
	MemlockUnlimited Memlock = "unlimited"
	MemlockInherit   Memlock = "inherit"
)

// UnmarshalJSON accepts a string or a number.
func (m *Memlock) UnmarshalJSON(b []byte) error {
	var n json.Number
	if json.Unmarshal(b, &n) == nil && len(b) > 0 && b[0] != '"' {
		*m = Memlock(n)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("memlock %s: want a string or a number of bytes", b)
	}
	*m = Memlock(s)
	return nil
}

// Bytes returns the limit in bytes: math.MaxInt64 for unlimited, 0 for inherit.
func (m Memlock) Bytes() (int64, error) {
	switch m {
	case MemlockUnlimited:
		return math.MaxInt64, nil
	case MemlockInherit:
		return 0, nil
	}
	const want = "want unlimited, inherit or a positive whole number of bytes such as 4Gi"
	size, err := bytesize.Parse(string(m))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: it %w", want, err)
	case size == 0:
		return 0, errors.New(want + "; it is 0")
	case size >= math.MaxInt64:
		return 0, errors.New(want + ", below 8Ei")
	}
	return int64(size), nil
}
